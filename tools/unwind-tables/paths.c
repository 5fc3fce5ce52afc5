// SPDX-License-Identifier: GPL-2.0
/*
 * Programs and libraries by their names, where no process has the file mapped: for the reader's
 * walk through directories. Nothing is opened before it is known to be a regular file or a
 * directory, and nothing is entered that is mounted there.
 */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "paths.h"

/* Entries that are looked at for one question, which has to end in time */
#define MAX_ENTRIES	256

/*
 * With its mount. Devices do not tell: on overlayfs, a file may be on another one than its
 * directory.
 */
static int look_at(int dir, const char *name, struct statx *st)
{
	return statx(dir, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		     STATX_BASIC_STATS | STATX_MNT_ID, st) ? -errno : 0;
}

/* One step of a way */
static int enter(int dir, const char *name, size_t len, const __u64 *mount)
{
	char one[NAME_MAX + 1];
	struct statx st;
	int fd;

	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(one, name, len);
	one[len] = '\0';
	if (!strcmp(one, ".."))
		return -EXDEV;
	fd = openat(dir, one, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (look_at(fd, "", &st) || S_ISLNK(st.stx_mode) || (mount && st.stx_mnt_id != *mount)) {
		close(fd);
		return -ELOOP;
	}
	return fd;
}

int paths_walk(int dir, const char *path, const __u64 *mount)
{
	int fd = dir, next;
	size_t len;

	for (path += strspn(path, "/"); *path; path += strspn(path, "/")) {
		len = strcspn(path, "/");
		next = enter(fd, path, len, mount);
		if (fd != dir)
			close(fd);
		if (next < 0)
			return next;
		fd = next;
		path += len;
	}
	return fd;
}

int paths_open(const struct reader_page *page)
{
	int directory, fd;
	struct statx st;
	__u64 mount;

	/* The administrator has named this file. */
	if (!page->directory[0]) {
		fd = open(page->path, O_PATH | O_CLOEXEC);
		return fd < 0 ? -errno : fd;
	}
	directory = open(page->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return -errno;
	fd = look_at(directory, "", &st);
	mount = st.stx_mnt_id;
	if (!fd)
		fd = paths_walk(directory, page->path, &mount);
	if (fd != directory)
		close(directory);
	return fd;
}

int paths_check_program(int fd)
{
	Elf64_Ehdr header;
	ssize_t len;

	len = pread(fd, &header, sizeof(header), 0);
	if (len < 0)
		return -errno;
	if (len != sizeof(header) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 ||
	    header.e_ident[EI_DATA] != ELFDATA2LSB ||
	    header.e_machine != EM_X86_64 ||
	    (header.e_type != ET_EXEC && header.e_type != ET_DYN))
		return -ENOEXEC;
	return 0;
}

/*
 * 'd': a directory; 'f': a file that may be a program or a library, which nearly all
 * tell by their mode or name; 0: anything else, and what is mounted there.
 */
static char kind_of(int directory, const struct dirent *entry, __u64 mount)
{
	struct statx st;

	if (entry->d_type != DT_REG && entry->d_type != DT_DIR &&
	    entry->d_type != DT_UNKNOWN)
		return 0;
	if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
		return 0;
	if (look_at(directory, entry->d_name, &st) || st.stx_mnt_id != mount)
		return 0;
	if (S_ISDIR(st.stx_mode))
		return 'd';
	if (S_ISREG(st.stx_mode) && st.stx_size >= sizeof(Elf64_Ehdr) &&
	    ((st.stx_mode & 0111) || strstr(entry->d_name, ".so")))
		return 'f';
	return 0;
}

static void add_name(struct reader_page *page, char kind, const char *name)
{
	size_t len = strlen(name) + 1;

	page->names[page->names_len] = kind;
	memcpy(&page->names[page->names_len + 1], name, len);
	page->names_len += 1 + len;
}

int paths_list(struct reader_page *page, int directory)
{
	const size_t largest = sizeof(((struct dirent *)0)->d_name) + 1;
	struct dirent *entry;
	int i, fd, error = 0;
	struct statx st;
	char kind;
	DIR *dir;

	fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	error = look_at(fd, "", &st);
	dir = error ? NULL : fdopendir(fd);
	if (!dir) {
		error = error ?: -errno;
		close(fd);
		return error;
	}
	if (page->position)
		seekdir(dir, page->position);
	for (i = 0; i < MAX_ENTRIES &&
	     page->names_len + largest <= sizeof(page->names); i++) {
		errno = 0;
		entry = readdir(dir);
		if (!entry) {
			error = -errno;
			page->end = true;
			break;
		}
		kind = kind_of(fd, entry, st.stx_mnt_id);
		if (kind)
			add_name(page, kind, entry->d_name);
		page->position = telldir(dir);
	}
	closedir(dir);
	return error;
}
