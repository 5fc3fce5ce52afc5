/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the tests of deferred user space unwinding:
 *
 *  - need_*(): what a test cannot do without. They return NULL, or the reason
 *    for a skip. Anything that goes wrong after them is a failure.
 *  - perf_*(), ring_*(): perf_event_open() and an exact reader of its buffer.
 *  - mod_*(): a session with the module test_unwind_deferred.
 *  - chain_*(): assembly functions whose frames are known to the byte.
 */
#ifndef UNWIND_TEST_H
#define UNWIND_TEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <linux/const.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest_harness.h"

/* It is there for what hangs: a guest on a busy machine may take long. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	120

/*
 * The ABI under test. Own numbers, so that the tests build against the headers
 * of any kernel and notice when the kernel's numbers move.
 */
#define UT_RECORD_CALLCHAIN_DEFERRED	22
#define UT_CONTEXT_USER_DEFERRED	((uint64_t)-640)
#define UT_ATTR_DEFER_CALLCHAIN		_BITULL(38)
#define UT_ATTR_DEFER_OUTPUT		_BITULL(39)

/* Most user addresses that a record can have. */
#define UT_MAX_ENTRIES			510

/* Flags between threads: what was written before set_flag() is seen after. */
static inline int get_flag(const int *flag)
{
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static inline void set_flag(int *flag, int value)
{
	__atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

/* ------------------------------------------------------------------------ */
/* Skip or fail								      */

/*
 * Mark the test as skipped if there is a reason to, which a need_*() returned.
 * For use directly inside a TEST() or TEST_F(), which returns if this is true.
 */
static inline bool must_skip(struct __test_metadata *_metadata, const char *why)
{
	if (why)
		SKIP(return true, "%s", why);
	return false;
}

static inline const char *need_root(void)
{
	return geteuid() ? "needs root" : NULL;
}

static inline const char *need_file(const char *path)
{
	static char why[256];

	if (!access(path, F_OK))
		return NULL;
	snprintf(why, sizeof(why), "needs %s", path);
	return why;
}

/* A helper program that lies beside the test; it is not built everywhere. */
static inline const char *test_file(const char *name)
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
static inline const char *need_program(const char *name)
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

static inline bool is_mounted(const char *dir)
{
	struct stat dir_st, up_st;
	char up[256];

	snprintf(up, sizeof(up), "%s/..", dir);
	return !stat(dir, &dir_st) && !stat(up, &up_st) &&
	       dir_st.st_dev != up_st.st_dev;
}

static inline const char *need_debugfs(void)
{
	if (need_root())
		return need_root();
	if (!is_mounted("/sys/kernel/debug"))
		mount("none", "/sys/kernel/debug", "debugfs", 0, NULL);
	return is_mounted("/sys/kernel/debug") ? NULL : "needs debugfs";
}

static inline const char *tracefs(void)
{
	const char *dir = "/sys/kernel/tracing";

	if (!is_mounted(dir))
		mount("none", dir, "tracefs", 0, NULL);
	return dir;
}

/* The id of a tracepoint event; -1 when the kernel does not have it. */
static inline long tracepoint_id(const char *system, const char *name)
{
	char path[256];
	long id = -1;
	FILE *file;

	snprintf(path, sizeof(path), "%s/events/%s/%s/id", tracefs(), system,
		 name);
	file = fopen(path, "r");
	if (!file)
		return -1;
	if (fscanf(file, "%ld", &id) != 1)
		id = -1;
	fclose(file);
	return id;
}

static inline const char *need_tracepoint(const char *system, const char *name)
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
static inline int uring_open(const struct io_uring_sqe *sqe)
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

/* Five levels of page tables give user space 56 bits. */
static inline bool cpu_has_la57(void)
{
	bool found = false;
	char line[4096];
	FILE *f = fopen("/proc/cpuinfo", "r");

	while (f && !found && fgets(line, sizeof(line), f))
		found = !strncmp(line, "flags", 5) && strstr(line, " la57");
	if (f)
		fclose(f);
	return found;
}

/*
 * Where the kernel, which maps all memory, has the page at @addr, or 0. It must
 * have been written to. With KASLR that is elsewhere, and nothing is there.
 */
static inline uint64_t kernel_alias(unsigned long addr)
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

/* Write a string to a file, as echo does. Returns 0 or -errno. */
static inline int write_file(const char *path, const char *text)
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

static inline pid_t my_tid(void)
{
	return syscall(SYS_gettid);
}

static inline int pin_to_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

/* The @index-th CPU we may run on, counted from 0; -1 if there is none. */
static inline int nth_cpu(int index)
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

static inline const char *need_cpus(int nr)
{
	return nth_cpu(nr - 1) < 0 ? "needs more CPUs" : NULL;
}

/* ------------------------------------------------------------------------ */
/* perf									      */

/* The flag bits of an attr as one word, for bits that a header may lack. */
static inline void perf_attr_set(struct perf_event_attr *attr, uint64_t bits)
{
	uint64_t word;

	memcpy(&word, (char *)attr + 40, sizeof(word));
	word |= bits;
	memcpy((char *)attr + 40, &word, sizeof(word));
}

static inline int perf_open(struct perf_event_attr *attr, pid_t pid,
			    int cpu, int group, unsigned long flags)
{
	int fd;

	attr->size = sizeof(*attr);
	fd = syscall(SYS_perf_event_open, attr, pid, cpu, group,
		     flags | PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/*
 * A disabled event with what ring_sample() and ring_deferred() can read:
 * sample type IP | TID | TIME | CPU | CALLCHAIN, sample_id_all, the clock that
 * cookies are stamped with. Change it before perf_open() as needed.
 */
static inline void perf_attr_init(struct perf_event_attr *attr,
				  uint32_t type, uint64_t config,
				  uint64_t defer_bits)
{
	memset(attr, 0, sizeof(*attr));
	attr->type = type;
	attr->config = config;
	attr->sample_period = 1;
	attr->sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID |
			    PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |
			    PERF_SAMPLE_CALLCHAIN;
	attr->sample_id_all = 1;
	attr->disabled = 1;
	perf_attr_set(attr, defer_bits);
}

static inline const char *need_perf_deferred(void)
{
	struct perf_event_attr attr;
	int fd;

	if (need_root())
		return need_root();
	perf_attr_init(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY,
		       UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
	fd = perf_open(&attr, 0, -1, -1, 0);
	if (fd == -EINVAL)
		return "this kernel has no deferred callchains (CONFIG_UNWIND_USER)";
	if (fd < 0)
		return "needs perf_event_open()";
	close(fd);
	return NULL;
}

/* The PMU type number of "uprobe", "kprobe" and the like; -1 if not there. */
static inline int pmu_type(const char *pmu)
{
	char path[256];
	int type = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/type",
		 pmu);
	file = fopen(path, "r");
	if (!file)
		return -1;
	if (fscanf(file, "%d", &type) != 1)
		type = -1;
	fclose(file);
	return type;
}

/* Where @addr of this program lies in its file, for a uprobe. */
static inline uint64_t file_offset(const void *addr, char *path, size_t size)
{
	unsigned long start, end, pgoff, want = (unsigned long)addr;
	uint64_t offset = 0;
	char line[1024], name[512];
	FILE *maps;

	maps = fopen("/proc/self/maps", "r");
	if (!maps)
		return 0;
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %511s", &start, &end,
			   &pgoff, name) != 4)
			continue;
		if (want < start || want >= end)
			continue;
		offset = want - start + pgoff;
		snprintf(path, size, "%s", name);
		break;
	}
	fclose(maps);
	return offset;
}

struct ring {
	struct perf_event_mmap_page	*page;
	size_t				size;
	uint64_t			lost;
};

/* Map the buffer of @fd; @pages is a power of two. Returns 0 or -errno. */
static inline int ring_open(struct ring *ring, int fd, size_t pages)
{
	size_t page_size = sysconf(_SC_PAGESIZE);

	memset(ring, 0, sizeof(*ring));
	ring->page = mmap(NULL, (pages + 1) * page_size, PROT_READ | PROT_WRITE,
			  MAP_SHARED, fd, 0);
	if (ring->page == MAP_FAILED) {
		ring->page = NULL;
		return -errno;
	}
	ring->size = pages * page_size;
	return 0;
}

static inline void ring_close(struct ring *ring)
{
	if (ring->page)
		munmap(ring->page, ring->size + sysconf(_SC_PAGESIZE));
	ring->page = NULL;
}

/* A record, whole and in one piece. */
struct record {
	struct perf_event_header	header;
	char				body[65536];
};

/* Take the next record. False when the buffer is empty. Counts lost ones. */
static inline bool ring_next(struct ring *ring, struct record *rec)
{
	size_t page_size = sysconf(_SC_PAGESIZE);
	char *data = (char *)ring->page + page_size;
	uint64_t head, tail, i;
	char *to = (char *)rec;
	uint64_t lost;

	head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	tail = ring->page->data_tail;
	if (head == tail)
		return false;
	for (i = 0; i < sizeof(rec->header); i++)
		to[i] = data[(tail + i) % ring->size];
	for (; i < rec->header.size; i++)
		to[i] = data[(tail + i) % ring->size];
	__atomic_store_n(&ring->page->data_tail, tail + rec->header.size,
			 __ATOMIC_RELEASE);
	if (rec->header.type == PERF_RECORD_LOST) {
		memcpy(&lost, rec->body + 8, sizeof(lost));
		ring->lost += lost;
	}
	return true;
}

/* What perf_attr_init()'s sample type carries. */
struct sample {
	uint64_t	ip;
	uint32_t	pid;
	uint32_t	tid;
	uint64_t	time;
	uint32_t	cpu;
	uint16_t	misc;
	/* The chain as it is in the record, context markers included. */
	uint64_t	nr;
	uint64_t	*chain;
	/* The cookie behind the deferred marker, 0 without one. */
	uint64_t	cookie;
	/* The part behind PERF_CONTEXT_USER, for a chain taken in place. */
	uint64_t	user_nr;
	uint64_t	*user;
	/* Kernel addresses, without the marker. */
	uint64_t	kernel_nr;
};

/* Decode a PERF_RECORD_SAMPLE. False if it is not one, or malformed. */
static inline bool ring_sample(const struct record *rec, struct sample *out)
{
	const char *pos = rec->body;
	bool kernel = false;
	uint64_t i;

	memset(out, 0, sizeof(*out));
	if (rec->header.type != PERF_RECORD_SAMPLE)
		return false;
	out->misc = rec->header.misc;
	memcpy(&out->ip, pos, 8);
	memcpy(&out->pid, pos + 8, 4);
	memcpy(&out->tid, pos + 12, 4);
	memcpy(&out->time, pos + 16, 8);
	memcpy(&out->cpu, pos + 24, 4);
	memcpy(&out->nr, pos + 32, 8);
	out->chain = (uint64_t *)(pos + 40);
	if (rec->header.size != 8 + 40 + 8 * out->nr)
		return false;
	for (i = 0; i < out->nr; i++) {
		if (out->chain[i] == (uint64_t)PERF_CONTEXT_KERNEL) {
			kernel = true;
		} else if (out->chain[i] == (uint64_t)PERF_CONTEXT_USER) {
			kernel = false;
			out->user_nr = out->nr - i - 1;
			out->user = out->chain + i + 1;
		} else if (out->chain[i] == UT_CONTEXT_USER_DEFERRED) {
			/* The marker is last but one, or the chain is bad. */
			if (i + 2 != out->nr)
				return false;
			out->cookie = out->chain[i + 1];
			return out->cookie != 0;
		} else if (kernel) {
			out->kernel_nr++;
		}
	}
	return true;
}

/* A PERF_RECORD_CALLCHAIN_DEFERRED. */
struct deferred {
	uint64_t	cookie;
	uint64_t	nr;
	uint64_t	*ips;
	uint16_t	misc;
	/* From the sample_id trailer. */
	uint32_t	pid;
	uint32_t	tid;
	uint64_t	time;
	uint32_t	cpu;
};

static inline bool ring_deferred(const struct record *rec, struct deferred *out)
{
	const char *pos = rec->body;

	memset(out, 0, sizeof(*out));
	if (rec->header.type != UT_RECORD_CALLCHAIN_DEFERRED)
		return false;
	out->misc = rec->header.misc;
	memcpy(&out->cookie, pos, 8);
	memcpy(&out->nr, pos + 8, 8);
	out->ips = (uint64_t *)(pos + 16);
	if (out->nr > UT_MAX_ENTRIES ||
	    rec->header.size != 8 + 16 + 8 * out->nr + 24)
		return false;
	pos += 16 + 8 * out->nr;
	memcpy(&out->pid, pos, 4);
	memcpy(&out->tid, pos + 4, 4);
	memcpy(&out->time, pos + 8, 8);
	memcpy(&out->cpu, pos + 16, 4);
	return true;
}

/* ------------------------------------------------------------------------ */
/* The test module							      */

#ifdef __LP64__

#define UT_MODULE	"test_unwind_deferred"
#define UT_SESSION	"/sys/kernel/debug/unwind_test/session"

/* What the in-kernel API calls them. */
#define UT_QUEUED		0
#define UT_ALREADY_PENDING	1
#define UT_ALREADY_EXECUTED	2

/* As many addresses as the module logs; nr is the true number. */
#define UT_LOG_IPS	24

/*
 * One line of the log:
 *	R  a request; ret, cookie, context and, if ret is UT_ALREADY_EXECUTED,
 *	   the cached trace
 *	C  a callback; timestamp is what the engine handed over
 *	P  how often a probe was hit (ret) and made a request (nr); work is its
 *	   number
 *	M  a task's state: ret is 1 if a context is open, nr 1 if it has a cache
 *	O  lines that found the log full (nr)
 */
struct log_entry {
	char		type;
	unsigned int	seq;
	int		work;
	int		ret;
	uint64_t	cookie;
	uint64_t	timestamp;
	uint64_t	now;
	char		ctx[8];
	int		cpu;
	int		tid;
	char		point[48];
	unsigned int	nr;
	uint64_t	ips[UT_LOG_IPS];
};

struct log {
	struct log_entry	*entries;
	unsigned int		nr;
	unsigned int		size;
	unsigned int		overflow;
};

/* For the module's sake the modprobe must be in its place. */
static inline const char *need_module(void)
{
	if (need_debugfs())
		return need_debugfs();
	if (access(UT_SESSION, F_OK) &&
	    system("modprobe -q " UT_MODULE " 2>/dev/null") < 0)
		return "needs a shell";
	if (access(UT_SESSION, F_OK))
		return "needs the module " UT_MODULE " (CONFIG_TEST_UNWIND_DEFERRED)";
	return NULL;
}

/*
 * Start a session. All that was set up through it goes when its last
 * descriptor is closed, whatever became of the test. Returns fd or -errno.
 */
static inline int mod_open(void)
{
	int fd = open(UT_SESSION, O_RDWR | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Send one command. Returns 0 or -errno. */
static inline __printf(2, 3)
int mod_cmd(int fd, const char *fmt, ...)
{
	char line[256];
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	return write(fd, line, len) == len ? 0 : -errno;
}

static inline bool log_parse(char *line, struct log_entry *entry)
{
	int used = 0;
	unsigned int i;
	char *pos;

	memset(entry, 0, sizeof(*entry));
	if (sscanf(line, "%c %u %d %d %lx %lu %lu %7s %d %d %47s %u%n",
		   &entry->type, &entry->seq, &entry->work, &entry->ret,
		   &entry->cookie, &entry->timestamp, &entry->now, entry->ctx,
		   &entry->cpu, &entry->tid, entry->point, &entry->nr,
		   &used) != 12)
		return false;
	if (entry->type != 'R' && entry->type != 'C')
		return true;
	pos = line + used;
	for (i = 0; i < entry->nr && i < UT_LOG_IPS; i++)
		entry->ips[i] = strtoul(pos, &pos, 16);
	return true;
}

/*
 * Append to @log what the session has logged since the last call. Start with
 * a zeroed log. Returns 0, or -errno.
 */
static inline int mod_log(int fd, struct log *log)
{
	struct log_entry entry;
	char *line = NULL;
	size_t size = 0;
	FILE *file;
	int ret = 0;

	fd = dup(fd);
	file = fd < 0 ? NULL : fdopen(fd, "r");
	if (!file)
		return -errno;
	while (getline(&line, &size, file) > 0) {
		if (!log_parse(line, &entry)) {
			ret = -EPROTO;
			break;
		}
		if (entry.type == 'O') {
			log->overflow += entry.nr;
			continue;
		}
		if (log->nr == log->size) {
			log->size = log->size ? 2 * log->size : 256;
			log->entries = realloc(log->entries,
					       log->size * sizeof(entry));
			if (!log->entries)
				abort();
		}
		log->entries[log->nr++] = entry;
	}
	free(line);
	fclose(file);
	return ret;
}

static inline void log_free(struct log *log)
{
	free(log->entries);
	memset(log, 0, sizeof(*log));
}

/* The @index-th entry of @type and @work (-1: any), from 0; or NULL. */
static inline struct log_entry *
log_find(struct log *log, char type, int work, unsigned int index)
{
	unsigned int i;

	for (i = 0; i < log->nr; i++) {
		struct log_entry *entry = &log->entries[i];

		if (entry->type == type && (work < 0 || entry->work == work) &&
		    index-- == 0)
			return entry;
	}
	return NULL;
}

static inline unsigned int log_count(struct log *log, char type, int work)
{
	unsigned int i, nr = 0;

	for (i = 0; i < log->nr; i++)
		nr += log->entries[i].type == type &&
		      (work < 0 || log->entries[i].work == work);
	return nr;
}

/* How many callbacks of @work came with @cookie. */
static inline unsigned int
log_answers(struct log *log, int work, uint64_t cookie)
{
	unsigned int i, nr = 0;

	for (i = 0; i < log->nr; i++)
		nr += log->entries[i].type == 'C' &&
		      log->entries[i].work == work &&
		      log->entries[i].cookie == cookie;
	return nr;
}

/* The callback of @work for @cookie, or NULL. */
static inline struct log_entry *
log_answer(struct log *log, int work, uint64_t cookie)
{
	unsigned int i;

	for (i = 0; i < log->nr; i++)
		if (log->entries[i].type == 'C' &&
		    log->entries[i].work == work &&
		    log->entries[i].cookie == cookie)
			return &log->entries[i];
	return NULL;
}

static inline void log_print(struct log *log)
{
	unsigned int i, j;

	for (i = 0; i < log->nr; i++) {
		struct log_entry *e = &log->entries[i];

		printf("# %c %u work %d ret %d cookie %lx ts %lu %s cpu %d tid %d %s nr %u:",
		       e->type, e->seq, e->work, e->ret, e->cookie,
		       e->timestamp, e->ctx, e->cpu, e->tid, e->point, e->nr);
		for (j = 0; j < e->nr && j < 6 && (e->type == 'R' || e->type == 'C'); j++)
			printf(" %lx", e->ips[j]);
		printf("\n");
	}
}

#endif /* __LP64__ */

/* ------------------------------------------------------------------------ */
/* Known frames								      */

#ifdef __x86_64__

/*
 * chain_syscall() makes a system call from below four frames, of which the
 * outermost has a frame pointer of 0. Its user stack is, exactly:
 *
 *	chain_ip_syscall	in chain_leaf, behind the syscall instruction
 *	chain_ip_middle		in chain_middle, behind its call
 *	chain_ip_outer		in chain_outer, behind its call
 *	chain_ip_base		in chain_call, behind its call
 *
 * chain_spin() waits in user space instead, until *flag becomes nonzero: the
 * first address is then in [chain_spin_lo, chain_spin_hi), the others are the
 * same.
 */
struct chain_call {
	long			nr;
	long			args[6];
	long			ret;
	const int		*flag;
};

void chain_call(struct chain_call *call);

extern const char chain_ip_syscall[], chain_ip_middle[], chain_ip_outer[],
	chain_ip_base[], chain_spin_lo[], chain_spin_hi[];

asm(".pushsection .text\n"
	".globl chain_call\n"
	".type chain_call, @function\n"
	"chain_call:\n"
	"	push %rbp\n"
	"	push %rbx\n"
	"	mov %rdi, %rbx\n"
	"	xor %ebp, %ebp\n"
	"	call chain_outer\n"
	".globl chain_ip_base\n"
	"chain_ip_base:\n"
	"	pop %rbx\n"
	"	pop %rbp\n"
	"	ret\n"
	"chain_outer:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	call chain_middle\n"
	".globl chain_ip_outer\n"
	"chain_ip_outer:\n"
	"	pop %rbp\n"
	"	ret\n"
	"chain_middle:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	call chain_leaf\n"
	".globl chain_ip_middle\n"
	"chain_ip_middle:\n"
	"	pop %rbp\n"
	"	ret\n"
	"chain_leaf:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
#ifndef __ILP32__
	"	mov 64(%rbx), %rdx\n"
	"	test %rdx, %rdx\n"
	"	jnz 1f\n"
	"	mov (%rbx), %rax\n"
	"	mov 8(%rbx), %rdi\n"
	"	mov 16(%rbx), %rsi\n"
	"	mov 24(%rbx), %rdx\n"
	"	mov 32(%rbx), %r10\n"
	"	mov 40(%rbx), %r8\n"
	"	mov 48(%rbx), %r9\n"
	"	syscall\n"
	".globl chain_ip_syscall\n"
	"chain_ip_syscall:\n"
	"	mov %rax, 56(%rbx)\n"
#else
	"	mov 32(%ebx), %edx\n"
	"	test %edx, %edx\n"
	"	jnz 1f\n"
	"	mov (%ebx), %eax\n"
	"	mov 4(%ebx), %edi\n"
	"	mov 8(%ebx), %esi\n"
	"	mov 12(%ebx), %edx\n"
	"	mov 16(%ebx), %r10d\n"
	"	mov 20(%ebx), %r8d\n"
	"	mov 24(%ebx), %r9d\n"
	"	syscall\n"
	".globl chain_ip_syscall\n"
	"chain_ip_syscall:\n"
	"	mov %eax, 28(%ebx)\n"
#endif
	"	pop %rbp\n"
	"	ret\n"
	".globl chain_spin_lo\n"
	"chain_spin_lo:\n"
	"1:	pause\n"
	"	cmpl $0, (%rdx)\n"
	"	je 1b\n"
	".globl chain_spin_hi\n"
	"chain_spin_hi:\n"
	"	pop %rbp\n"
	"	ret\n"
	".size chain_call, . - chain_call\n"
	".popsection\n");

/* Number of frames that both leave. */
#define CHAIN_NR	4

static inline long chain_syscall(long nr, long a0, long a1, long a2,
				 long a3, long a4, long a5)
{
	struct chain_call call = {
		.nr = nr, .args = { a0, a1, a2, a3, a4, a5 },
	};

	chain_call(&call);
	return call.ret;
}

/* One without arguments */
static inline long chain0(long nr)
{
	return chain_syscall(nr, 0, 0, 0, 0, 0, 0);
}

static inline void chain_spin(const int *flag)
{
	struct chain_call call = { .flag = flag };

	chain_call(&call);
}

static inline bool chain_callers_ok(const uint64_t *ips, uint64_t nr)
{
	return nr == CHAIN_NR && ips[1] == (unsigned long)chain_ip_middle &&
	       ips[2] == (unsigned long)chain_ip_outer &&
	       ips[3] == (unsigned long)chain_ip_base;
}

/* Is this exactly the stack of a chain_syscall()? */
static inline bool chain_syscall_ok(const uint64_t *ips, uint64_t nr)
{
	return chain_callers_ok(ips, nr) &&
	       ips[0] == (unsigned long)chain_ip_syscall;
}

/* Is this exactly the stack of a chain_spin()? */
static inline bool chain_spin_ok(const uint64_t *ips, uint64_t nr)
{
	return chain_callers_ok(ips, nr) &&
	       ips[0] >= (unsigned long)chain_spin_lo &&
	       ips[0] < (unsigned long)chain_spin_hi;
}

/* A command to the test module from below the chain. Returns 0 or -errno. */
static inline __printf(2, 3)
int chain_cmd(int fd, const char *fmt, ...)
{
	char line[256];
	va_list args;
	long ret;
	int len;

	va_start(args, fmt);
	len = vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	ret = chain_syscall(SYS_write, fd, (long)line, len, 0, 0, 0);
	return ret == len ? 0 : ret < 0 ? ret : -EIO;
}

#endif /* __x86_64__ */

#endif /* UNWIND_TEST_H */
