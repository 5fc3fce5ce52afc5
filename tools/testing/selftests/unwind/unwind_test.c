// SPDX-License-Identifier: GPL-2.0
/*
 * Shared by all tests of deferred user space unwinding.
 */
#include <sys/mman.h>
#include <sys/mount.h>

#include "unwind_test.h"

const char *need_root(void)
{
	return geteuid() ? "needs root" : NULL;
}

const char *need_file(const char *path)
{
	static char why[256];

	if (!access(path, F_OK))
		return NULL;
	snprintf(why, sizeof(why), "needs %s", path);
	return why;
}

/* A helper program that lies beside the test; it is not built everywhere. */
const char *test_file(const char *name)
{
	static char path[2][512];
	static int slot;
	char self[384];
	ssize_t len;
	char *end;

	len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (len < 0)
		return name;
	self[len] = 0;
	end = strrchr(self, '/');
	if (end)
		*end = 0;
	slot ^= 1;
	snprintf(path[slot], sizeof(path[slot]), "%s/%s", self, name);
	return path[slot];
}

/* Helper programs for another ABI: not built, or not run by this kernel. */
const char *need_program(const char *name)
{
	static char why[256];
	int status;
	pid_t pid;

	if (access(test_file(name), X_OK)) {
		snprintf(why, sizeof(why), "%s is not built (compiler)", name);
		return why;
	}
	pid = fork();
	if (!pid) {
		execl(test_file(name), name, "--probe", NULL);
		_exit(errno == ENOEXEC ? 4 : 1);
	}
	if (pid > 0 && waitpid(pid, &status, 0) == pid &&
	    WIFEXITED(status) && WEXITSTATUS(status) != 4)
		return NULL;
	snprintf(why, sizeof(why), "this kernel does not run %s", name);
	return why;
}

static bool is_mounted(const char *dir)
{
	struct stat dir_st, up_st;
	char up[256];

	snprintf(up, sizeof(up), "%s/..", dir);
	return !stat(dir, &dir_st) && !stat(up, &up_st) &&
	       dir_st.st_dev != up_st.st_dev;
}

const char *need_debugfs(void)
{
	if (need_root())
		return need_root();
	if (!is_mounted("/sys/kernel/debug"))
		mount("none", "/sys/kernel/debug", "debugfs", 0, NULL);
	return is_mounted("/sys/kernel/debug") ? NULL : "needs debugfs";
}

#define FAILSLAB	"/sys/kernel/debug/failslab"

const char *need_failing_allocations(void)
{
	if (need_debugfs())
		return need_debugfs();
	if (need_file(FAIL_NTH))
		return need_file(FAIL_NTH);
	if (need_file(FAILSLAB "/ignore-gfp-wait"))
		return need_file(FAILSLAB "/ignore-gfp-wait");
	/* They allocate on the same path, so another allocation would fail. */
	return access("/sys/kernel/debug/debug_objects", F_OK) ?
	       NULL : "CONFIG_DEBUG_OBJECTS allocates first";
}

/* Those that may sleep, where a thread asks for it. Returns 0 if that worked. */
int let_allocations_fail(bool on)
{
	write_file(FAILSLAB "/verbose", "0");
	return write_file(FAILSLAB "/ignore-gfp-wait", on ? "N" : "Y");
}

const char *tracefs(void)
{
	const char *dir = "/sys/kernel/tracing";

	if (!is_mounted(dir))
		mount("none", dir, "tracefs", 0, NULL);
	return dir;
}

/* The id of a tracepoint event; -1 when the kernel does not have it. */
long tracepoint_id(const char *system, const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/events/%s/%s/id", tracefs(), system,
		 name);
	return up_read_number(path);
}

const char *need_tracepoint(const char *system, const char *name)
{
	static char why[128];

	if (need_root())
		return need_root();
	if (tracepoint_id(system, name) >= 0)
		return NULL;
	snprintf(why, sizeof(why), "needs the tracepoint %s:%s", system, name);
	return why;
}

/* An io_uring whose next io_uring_enter() is to submit @sqe, or -errno */
int uring_open(const struct io_uring_sqe *sqe)
{
	struct io_uring_params params = { };
	int fd = syscall(SYS_io_uring_setup, 4, &params);
	size_t size = params.sq_off.array + params.sq_entries * 4;
	struct io_uring_sqe *sqes;
	char *sq;

	if (fd < 0)
		return -errno;
	sq = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		  IORING_OFF_SQ_RING);
	sqes = mmap(NULL, sizeof(*sqes), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    IORING_OFF_SQES);
	if (sq == MAP_FAILED || (void *)sqes == MAP_FAILED) {
		close(fd);
		return -ENOMEM;
	}
	sqes[0] = *sqe;
	*(unsigned int *)(sq + params.sq_off.array) = 0;
	__atomic_store_n((unsigned int *)(sq + params.sq_off.tail), 1,
			 __ATOMIC_RELEASE);
	munmap(sqes, sizeof(*sqes));
	munmap(sq, size);
	return fd;
}

/* In the CPU and in the kernel */
bool cpu_has(const char *flag)
{
	FILE *f = fopen("/proc/cpuinfo", "r");
	char line[4096], word[32];
	bool found = false;

	snprintf(word, sizeof(word), " %s ", flag);
	while (f && !found && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = ' ';
		found = !strncmp(line, "flags", 5) && strstr(line, word);
	}
	if (f)
		fclose(f);
	return found;
}

/* Five levels of page tables give user space 56 bits. */
bool cpu_has_la57(void)
{
	return cpu_has("la57");
}

/*
 * Where the kernel, which maps all memory, has the page at @addr, or 0. It must
 * have been written to. With KASLR that is elsewhere, and nothing is there.
 */
uint64_t kernel_alias(unsigned long addr)
{
	uint64_t base = cpu_has_la57() ? 0xff11000000000000 : 0xffff888000000000;
	int fd = open("/proc/self/pagemap", O_RDONLY);
	uint64_t entry = 0;

	if (fd < 0)
		return 0;
	if (pread(fd, &entry, sizeof(entry), addr / 4096 * sizeof(entry)) < 0)
		entry = 0;
	close(fd);
	/* The frame number is in the lower 55 bits, and is root's */
	entry &= (1ULL << 55) - 1;
	return entry ? base + entry * 4096 + addr % 4096 : 0;
}

/* The mapping of a file that @addr of this program is in; false if there is none */
bool find_mapping(const void *addr, struct mapping *map)
{
	unsigned long end, want = (unsigned long)addr;
	FILE *maps = fopen("/proc/self/maps", "r");
	bool found = false;
	char line[1024];

	while (maps && !found && fgets(line, sizeof(line), maps))
		found = sscanf(line, "%lx-%lx %*s %lx %*s %*s %511s", &map->start, &end,
			       &map->offset, map->path) == 4 &&
			want >= map->start && want < end;
	if (maps)
		fclose(maps);
	return found;
}

/* Where @addr of this program lies in its file, for a uprobe. */
uint64_t file_offset(const void *addr, char *path, size_t size)
{
	struct mapping map;

	if (!find_mapping(addr, &map))
		return 0;
	snprintf(path, size, "%s", map.path);
	return (unsigned long)addr - map.start + map.offset;
}

/* Write a string to a file, as echo does. Returns 0 or -errno. */
int write_file(const char *path, const char *text)
{
	int fd, ret = 0;

	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

long long up_read_number(const char *path)
{
	long long val = -1;
	FILE *f = fopen(path, "r");

	if (!f)
		return -1;
	if (fscanf(f, "%lld", &val) != 1)
		val = -1;
	fclose(f);
	return val;
}

int up_write_number(const char *path, long long val)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	char buf[32];
	ssize_t n;

	if (fd < 0)
		return -1;
	snprintf(buf, sizeof(buf), "%lld\n", val);
	n = write(fd, buf, strlen(buf));
	close(fd);
	return n == (ssize_t)strlen(buf) ? 0 : -1;
}

pid_t my_tid(void)
{
	return syscall(SYS_gettid);
}

int pin_to_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

/* The @index-th CPU we may run on, counted from 0; -1 if there is none. */
int nth_cpu(int index)
{
	static cpu_set_t set;
	static bool known;
	int cpu;

	/* Keep the first answer: a test may have pinned itself since. */
	if (!known && sched_getaffinity(0, sizeof(set), &set))
		return -1;
	known = true;
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set) && index-- == 0)
			return cpu;
	return -1;
}

const char *need_cpus(int nr)
{
	return nth_cpu(nr - 1) < 0 ? "needs more CPUs" : NULL;
}

/*
 * Let @size addresses from @addr on pass for return addresses: the call before
 * each of them must be in executable memory, or a walk ends there. So it does if the
 * code after the call is not in memory.
 */
bool map_code(unsigned long addr, size_t size)
{
	unsigned long start = (addr - 1) & -4096UL;

	return mmap((void *)start, addr + size - start, PROT_READ | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_POPULATE,
		    -1, 0) == (void *)start;
}

/*
 * Two pages. The second begins with a frame, the outermost one, that returns to @ret. It
 * is in memory, but not in the page tables of anybody. NULL on failure.
 */
char *absent_stack(const void *ret)
{
	uint64_t frame[] = { 0, (uint64_t)ret };
	char *stack;
	int file;

	file = memfd_create("stack", MFD_CLOEXEC);
	if (pwrite(file, frame, sizeof(frame), 4096) != sizeof(frame) ||
	    ftruncate(file, 8192))
		return NULL;
	stack = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (stack == MAP_FAILED)
		return NULL;
	stack[0] = 1;
	return stack;
}

/* Memory whose pages somebody has to supply by the descriptor; -1 if there is no such */
int uffd_on(unsigned long addr, size_t len, uint64_t mode, uint64_t features)
{
	struct uffdio_register reg = { .range = { addr, len }, .mode = mode };
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0 && (ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &reg))) {
		close(fd);
		return -1;
	}
	return fd;
}

int raw_sigaction(int sig, const void *handler, unsigned long flags, const void *restorer)
{
	struct raw_sigaction sa = {
		.handler = (unsigned long)handler,
		.flags = flags | (restorer ? SA_RESTORER : 0),
		.restorer = (unsigned long)restorer,
	};

	return syscall(SYS_rt_sigaction, sig, &sa, NULL, 8);
}
