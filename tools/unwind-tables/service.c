// SPDX-License-Identifier: GPL-2.0
/*
 * unwind-tables serve: tables for the files of the processes that run, then for files that they and
 * others map. Mappings are watched before the running processes are looked at, so none is missed in
 * between.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include "keeper.h"
#include "kernel.h"
#include "process.h"
#include "unwind-tables.h"

#define DEFAULT_MAX_MB	256
#define DEFAULT_KEEP	300
#define DEFAULT_EXCLUDE	"/etc/unwind-tables.conf"
#define NICE		10
#define SWEEP_SECONDS	30
/*
 * After a look at all processes, this many times the CPU time that it took passes before the
 * next one: so these looks take 3 percent of one CPU. At least a second. The work that this causes
 * for shares does not count: otherwise users could delay the next look.
 */
#define SCAN_PART	32
#define SCAN_NS		1000000000ull
/* Shares are written this long after they have changed. */
#define SHARES_NS	1000000000ull
/* How often the progress of workers that something waits for is checked */
#define AWAIT_NS	500000000ull
/* So long after the first look has begun, nobody can delay the start any more. */
#define START_NS	60000000000ull
/* Descriptors that are no events */
#define NR_OTHERS	5
/* The names of descriptors that a service manager keeps for us */
#define STORED		"tables-"
#define MAX_PREDECESSORS 8
#define MANAGER_SECONDS	5
/* It need not hear more often that the service is alive. */
#define PING_NS		1000000000ull
/*
 * The parent need not wait longer for the tables of a program that it is going to start: in CPU
 * time, and by the clock, since the machine may be busy
 */
#define PREPARE_CPU_NS	1000000000ull
#define PREPARE_NS	10000000000ull

struct service {
	struct keeper *keeper;
	struct events *events;
	/*
	 * What poll() waits for: signals, changes of devices, the parent, the clock, the keeper,
	 * then the events
	 */
	struct pollfd *fds;
	int nr_fds;
	int signals;
	int uevents;
	int clock;
	/* When to look without having been told */
	__u64 next_look;
	/* CPUs that came online are not watched. */
	bool blind;
	/* When the use of each share is published again; 0: later */
	__u64 next_shares;
	__u64 next_sweep;
	/* When the number of lines left out is logged; 0: none were */
	__u64 next_say;
	/* When the service manager has to hear of us again; 0: it does not wait for that */
	__u64 next_ping;
	__u64 ping_ns;
	/* Names of descriptors by which the tables of services before this one are kept */
	const char *predecessors[MAX_PREDECESSORS];
	int nr_predecessors;
	bool exited;
	/* A sweep, or a look at all processes, is under way; CPU time that it has taken */
	bool sweeping;
	__u64 sweep_ns;
	bool scanning;
	__u64 scan_ns;
	bool rescan;
	/* The next look is not before this; how many there were */
	__u64 next_scan;
	unsigned int nr_scans;
	/* The first look has not ended; nor has the first walk. */
	bool starts;
	__u64 start_until;
	bool walks;
	bool end;
	/* ... because of a mistake, of which the service manager has to know */
	bool failed;
	/* The parent knows that not all files get tables. */
	bool told_limited;
	/* Tables for the parent are being made. When it is told how many are left, or UINT64_MAX */
	bool prepares;
	__u64 prepare_until_cpu;
	__u64 prepare_until;
	/* The part of the parent's line that has arrived */
	char line[PATH_MAX];
	size_t line_len;
};

static struct {
	/* Started by another program: ends with it, and tells it how far we are */
	bool parent;
	/* Only files that are mapped from now on, and those of these processes */
	const char *only;
	__u64 max_mb;
	bool keep_priority;
	__u64 keep;
	const char *device;
	const char *exclude;
	/* Directories, the last one NULL; NULL if there are none */
	const char **ahead;
	unsigned int nr_ahead;
} opts = { .max_mb = DEFAULT_MAX_MB, .keep = DEFAULT_KEEP, .exclude = DEFAULT_EXCLUDE };

/* ------------------------------------------------------------------------ */
/* Surroundings								      */

/* @pass: a descriptor for it, or -1 */
static void tell_manager_with_fd(const char *state, int pass)
{
	int error = sd_pid_notify_with_fds(0, 0, state, &pass, pass >= 0);

	if (error < 0)
		log_line(LOG_WARNING, "cannot notify the service manager: %s",
			 strerror(-error));
}

static void tell_manager(const char *state)
{
	tell_manager_with_fd(state, -1);
}

/*
 * Services before this one, whose tables the service manager has kept by their descriptors
 * of the device. It still has these, so the copies are not needed.
 */
static void meet_predecessors(struct service *service)
{
	char **names;
	int i, nr;

	nr = sd_listen_fds_with_names(1, &names);
	for (i = 0; i < nr; i++) {
		close(SD_LISTEN_FDS_START + i);
		if (!strncmp(names[i], STORED, strlen(STORED)) &&
		    service->nr_predecessors < MAX_PREDECESSORS)
			service->predecessors[service->nr_predecessors++] = names[i];
	}
}

/* From now on the tables outlive this process, until its successor has as many. */
static void keep_tables(struct service *service)
{
	char state[64];

	snprintf(state, sizeof(state), "FDSTORE=1\nFDNAME=" STORED "%d", getpid());
	tell_manager_with_fd(state, keeper_device(service->keeper));
}

/* Every file has a table now: drop the predecessors'. */
static void succeed(struct service *service)
{
	char state[300];
	int i;

	if (!service->nr_predecessors)
		return;
	keep_tables(service);
	for (i = 0; i < service->nr_predecessors; i++) {
		snprintf(state, sizeof(state), "FDSTOREREMOVE=1\nFDNAME=%s",
			 service->predecessors[i]);
		tell_manager(state);
	}
	service->nr_predecessors = 0;
	/* The kernel may have had no room for both. */
	keeper_unlock(service->keeper);
	sd_notify_barrier(0, MANAGER_SECONDS * 1000000ull);
	keeper_lock(service->keeper);
	keeper_others_went(service->keeper);
}

/* How often the service manager wants to hear of us; half the time that it waits */
static __u64 watchdog_ns(void)
{
	uint64_t usec;

	return sd_watchdog_enabled(0, &usec) > 0 ? usec * 1000 / 2 : 0;
}

static void ping_manager(struct service *service)
{
	__u64 now = now_ns();

	if (!service->ping_ns || now < service->next_ping)
		return;
	tell_manager("WATCHDOG=1");
	service->next_ping = now + service->ping_ns;
}

static void lower_priority(void)
{
	struct sched_param param = { };

	errno = 0;
	if (getpriority(PRIO_PROCESS, 0) < NICE && !errno)
		setpriority(PRIO_PROCESS, 0, NICE);
	sched_setscheduler(0, SCHED_BATCH, &param);
}

/* A descriptor for each CPU may exceed the usual limit. */
static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void drop_capabilities(void)
{
	const __u64 own = 1ull << CAP_PERFMON | 1ull << CAP_SYS_PTRACE;
	int error;

	error = process_limit_capabilities(own | 1ull << CAP_DAC_READ_SEARCH |
					   1ull << CAP_CHECKPOINT_RESTORE |
					   1ull << CAP_SETUID | 1ull << CAP_SETGID |
					   1ull << CAP_KILL, own);
	if (error)
		log_line(LOG_WARNING, "cannot give up capabilities: %s",
			 strerror(-error));
}

static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The kernel reports here that a CPU goes online or offline. */
static int open_uevents(void)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	int fd;

	fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
		    NETLINK_KOBJECT_UEVENT);
	if (fd >= 0 && !bind(fd, (struct sockaddr *)&address, sizeof(address)))
		return fd;
	log_line(LOG_WARNING,
		 "cannot receive CPU hotplug events: %s; checking every %d s instead",
		 strerror(errno), SWEEP_SECONDS);
	if (fd >= 0)
		close(fd);
	return -1;
}

/*
 * Can be read when the clock is set, and so when the machine has been suspended: all CPUs but one
 * were off then, without a uevent.
 */
static int open_clock(void)
{
	const struct itimerspec never = { .it_value.tv_sec = 1ll << 33 };
	int fd;

	fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (fd >= 0)
		timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL);
	return fd;
}

/* ------------------------------------------------------------------------ */
/* Work									      */

static void on_complaint(void *arg, const char *message)
{
	log_line(LOG_WARNING, "%s", message);
}

/* Of all threads, and of the readers that they have started */
static __u64 cpu_ns(const struct service *service)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID) + keeper_stats(service->keeper)->cpu_ns;
}

static void publish_shares(struct service *service)
{
	__u64 now = now_ns();

	if (!service->next_shares && keeper_has_changed(service->keeper))
		service->next_shares = now + SHARES_NS;
	if (!service->next_shares || now < service->next_shares)
		return;
	service->next_shares = 0;
	keeper_publish_shares(service->keeper);
}

static void on_mapping(void *arg, pid_t pid, __u64 address, __u64 key)
{
	const struct service *service = arg;

	keeper_map(service->keeper, pid, address, key);
}

static void set_fds(struct service *service)
{
	int i, nr = service->events ? events_nr(service->events) : 0;
	struct pollfd *fds;

	fds = calloc(nr + NR_OTHERS, sizeof(*fds));
	if (!fds) {
		log_line(LOG_ERR, "no memory for %d descriptors, ending",
			 nr + NR_OTHERS);
		service->end = true;
		service->failed = true;
		return;
	}
	free(service->fds);
	service->fds = fds;
	service->nr_fds = nr + NR_OTHERS;
	fds[0].fd = service->signals;
	fds[1].fd = service->uevents;
	fds[2].fd = opts.parent ? STDIN_FILENO : -1;
	fds[3].fd = service->clock;
	fds[4].fd = keeper_news(service->keeper);
	for (i = 0; i < nr; i++)
		fds[i + NR_OTHERS].fd = events_fd(service->events, i);
	for (i = 0; i < nr + NR_OTHERS; i++)
		fds[i].events = POLLIN;
}

/* CPUs came online or went offline. A scan finds what they did until they are watched. */
static void reopen_events(struct service *service)
{
	struct events *events;
	int error;

	error = events_open(&events);
	if (error) {
		/* Once. Then each sweep looks at all processes, as these CPUs are not watched. */
		if (!service->blind) {
			log_line(LOG_ERR, "cannot watch mappings on CPUs that have come: %s",
				 strerror(-error));
			service->rescan = true;
		}
		service->blind = true;
		return;
	}
	service->blind = false;
	events_close(service->events);
	service->events = events;
	set_fds(service);
	service->rescan = true;
}

/* Has something happened to a CPU? If messages were lost, assume yes. */
static bool read_uevents(struct service *service)
{
	static const char cpu[] = "@/devices/system/cpu/cpu";
	char message[4096];
	bool seen = false;
	ssize_t len;

	while ((len = recv(service->uevents, message, sizeof(message), 0)) > 0)
		if (memmem(message, len, cpu, strlen(cpu)))
			seen = true;
	return seen || errno == ENOBUFS;
}

/* Has the clock been set? */
static bool read_clock(struct service *service)
{
	__u64 times;

	return read(service->clock, &times, sizeof(times)) < 0 && errno == ECANCELED;
}

static void look_at_cpus(struct service *service)
{
	__u64 now = now_ns();
	bool changed = false;

	if (service->fds[1].revents)
		changed |= read_uevents(service);
	if (service->fds[3].revents)
		changed |= read_clock(service);
	if (service->uevents < 0 && now >= service->next_look) {
		service->next_look = now + SWEEP_SECONDS * 1000000000ull;
		changed = true;
	}
	if (changed && events_outdated(service->events))
		reopen_events(service);
}

static void read_signals(struct service *service)
{
	struct signalfd_siginfo info;

	while (read(service->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGHUP) {
			keeper_exclude(service->keeper, opts.exclude);
			service->rescan = true;
			service->next_scan = 0;
			keeper_ahead(service->keeper);
		} else {
			service->end = true;
		}
	}
}

static void read_events(struct service *service)
{
	struct events_seen seen = { };

	events_read(service->events, on_mapping, service, &seen);
	if (seen.lost)
		service->rescan = true;
	if (seen.exited && !service->exited) {
		service->exited = true;
		if (service->next_sweep < now_ns() + SWEEP_SECONDS * 1000000000ull)
			service->next_sweep = now_ns() + SWEEP_SECONDS * 1000000000ull;
	}
}

static void log_stats(struct service *service)
{
	const struct keeper_stats *stats = keeper_stats(service->keeper);

	log_line(LOG_INFO,
		 "%llu tables with %llu KB; %llu files looked at, %llu without unwind information, %llu refused; %llu tables dropped; %llu ms spent on making tables; %u looks at all processes",
		 (unsigned long long)stats->tables, (unsigned long long)stats->bytes >> 10,
		 (unsigned long long)stats->files, (unsigned long long)stats->no_cfi,
		 (unsigned long long)stats->refused, (unsigned long long)stats->dropped,
		 (unsigned long long)stats->build_ns / 1000000, service->nr_scans);
}

/* Each walk that has ended, and that this service has all tables now */
static void on_walk(struct service *service)
{
	const struct keeper_stats *stats = keeper_stats(service->keeper);

	log_line(LOG_INFO,
		 "made ahead: %llu tables with %llu rows, %llu KB; %llu ms of CPU time",
		 (unsigned long long)stats->ahead, (unsigned long long)stats->ahead_rows,
		 (unsigned long long)stats->ahead_bytes >> 10,
		 (unsigned long long)stats->ahead_cpu_ns / 1000000);
	service->walks = false;
	if (!service->starts)
		succeed(service);
}

/* Any thread stands for its process. */
static pid_t process_of_task(pid_t tid)
{
	char name[32], line[256];
	pid_t pid = -1;
	FILE *file;

	snprintf(name, sizeof(name), "%d/status", tid);
	file = process_fopen_proc(name);
	if (!file)
		return -1;
	while (pid < 0 && fgets(line, sizeof(line), file))
		if (sscanf(line, "Tgid: %d", &pid) != 1)
			pid = -1;
	fclose(file);
	return pid;
}

/* The processes of --only, which may be none */
static void see_to_only(struct service *service)
{
	const char *at = opts.only;
	pid_t last = 0;
	char *end;

	while (*at) {
		pid_t pid = process_of_task(strtol(at, &end, 10));

		/* The threads of a process often stand beside each other. */
		if (pid > 0 && pid != last)
			keeper_process(service->keeper, pid);
		last = pid;
		at = *end == ',' ? end + 1 : end;
	}
}

static void begin_scan(struct service *service)
{
	__u64 start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	bool all = service->rescan;

	service->rescan = false;
	service->nr_scans++;
	service->scanning = true;
	keeper_scan(service->keeper, all && !opts.only);
	if (all && opts.only)
		see_to_only(service);
	service->scan_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
}

static void scan(struct service *service)
{
	__u64 pause, start = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	service->scanning = keeper_scan_on(service->keeper);
	service->scan_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
	pause = service->scan_ns * SCAN_PART;
	service->next_scan = now_ns() + (pause > SCAN_NS ? pause : SCAN_NS);
}

static void sweep(struct service *service)
{
	__u64 pause, start = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	/* Processes that end from now on may have been looked at before. */
	if (!service->sweeping)
		service->exited = false;
	service->sweeping = keeper_sweep(service->keeper);
	service->sweep_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
	if (service->sweeping)
		return;
	service->next_shares = now_ns();
	pause = service->sweep_ns * SCAN_PART;
	service->sweep_ns = 0;
	if (pause < SWEEP_SECONDS * 1000000000ull)
		pause = SWEEP_SECONDS * 1000000000ull;
	/* Files that are kept for a while are looked at again. */
	service->exited |= keeper_stats(service->keeper)->unused;
	service->next_sweep = now_ns() + pause;
	/* Uevents may be lost, or not be heard at all. */
	if (events_outdated(service->events))
		reopen_events(service);
	if (service->blind)
		service->rescan = true;
}

/* Until the next sweep or ping, or without end if nothing has changed */
static int timeout(const struct service *service)
{
	__u64 now = now_ns(), until = UINT64_MAX;

	if (keeper_is_busy(service->keeper))
		return 0;
	if (service->starts || service->sweeping || service->prepares)
		until = now + AWAIT_NS;
	else if (service->exited)
		until = service->next_sweep;
	else if (service->uevents < 0)
		until = now + SWEEP_SECONDS * 1000000000ull;
	if ((service->rescan || keeper_wants_scan(service->keeper)) && service->next_scan < until)
		until = service->next_scan;
	if (service->next_shares && service->next_shares < until)
		until = service->next_shares;
	if (service->next_say && service->next_say < until)
		until = service->next_say;
	if (service->ping_ns && service->next_ping < until)
		until = service->next_ping;
	if (until == UINT64_MAX)
		return -1;
	return until <= now ? 0 : (until - now) / 1000000 + 1;
}

/* Tell the program that started us, if it asked for that. It need not listen. */
static void tell_parent(const char *line)
{
	if (opts.parent && write(STDOUT_FILENO, line, strlen(line)) < 0)
		log_line(LOG_WARNING, "cannot write to the program that started this: %s",
			 strerror(errno));
}

/* Tell it that something is done, and before that if it could not be done for all files */
static void tell_parent_done(struct service *service, const char *line)
{
	if (keeper_stats(service->keeper)->denied && !service->told_limited) {
		service->told_limited = true;
		tell_parent("limited\n");
	}
	tell_parent(line);
}

/* From the first file on, no table is made until all are queued. */
static void on_workload_file(void *arg, const char *path, unsigned int left, __u64 list_ns)
{
	struct service *service = arg;

	if (!service->prepares) {
		keeper_lock(service->keeper);
		service->prepares = true;
		service->prepare_until_cpu -= list_ns < PREPARE_CPU_NS ? list_ns : PREPARE_CPU_NS;
	}
	keeper_path(service->keeper, path);
}

/* Each line of the parent's names a program that is about to be started. */
static void prepare(struct service *service)
{
	char *line = service->line, *end = memchr(line, '\n', service->line_len);

	if (!end)
		return;
	*end++ = '\0';
	service->prepare_until_cpu = cpu_ns(service) + PREPARE_CPU_NS;
	service->prepare_until = now_ns() + PREPARE_NS;
	keeper_unlock(service->keeper);
	workload_files(line, on_workload_file, service);
	if (!service->prepares)
		keeper_lock(service->keeper);
	service->prepares = true;
	service->line_len -= end - line;
	memmove(line, end, service->line_len);
}

static void hear_parent(struct service *service)
{
	ssize_t len;

	len = read(STDIN_FILENO, service->line + service->line_len,
		   sizeof(service->line) - service->line_len);
	/* It has been closed; or the line is longer than any name. */
	if (len <= 0)
		service->end = true;
	else
		service->line_len += len;
}

/* Are they done, or does it take too long? Until then no further line is read. */
static void look_at_prepared(struct service *service)
{
	unsigned int left;
	char line[32];

	do {
		if (!service->prepares)
			prepare(service);
		left = keeper_awaits(service->keeper, JOB_PATH);
		if (left && (cpu_ns(service) >= service->prepare_until_cpu ||
			     now_ns() >= service->prepare_until)) {
			service->prepare_until_cpu = UINT64_MAX;
			service->prepare_until = UINT64_MAX;
			snprintf(line, sizeof(line), "left %u\n", left);
			tell_parent(line);
		}
		if (service->prepares && !left) {
			service->prepares = false;
			tell_parent_done(service, "done\n");
		}
	} while (!service->prepares && memchr(service->line, '\n', service->line_len));
	service->fds[2].fd = service->prepares ? -1 : STDIN_FILENO;
}

/* The first look has ended, except for workers that make no progress. */
static void on_start(struct service *service)
{
	service->starts = false;
	service->next_shares = now_ns();
	tell_parent_done(service, "ready\n");
	if (!opts.parent)
		log_stats(service);
	tell_manager("STATUS=Keeping tables for running programs");
	if (!service->walks)
		succeed(service);
}

static void look_at_keeper(struct service *service)
{
	struct keeper *keeper = service->keeper;
	__u64 now = now_ns(), at = keeper_sweep_at(keeper) * NSEC_PER_SEC;

	if (at && (!service->exited || at < service->next_sweep)) {
		service->exited = true;
		service->next_sweep = at;
	}
	if (service->scanning)
		scan(service);
	else if ((service->rescan || keeper_wants_scan(keeper)) && now >= service->next_scan)
		begin_scan(service);
	if (service->sweeping || (service->exited && now >= service->next_sweep))
		sweep(service);
	if (keeper_has_walked(keeper))
		on_walk(service);
	/* Only once: a user who has events lost makes it look again and again. */
	if (service->scanning && !service->start_until)
		service->start_until = now + START_NS;
	if (service->starts && !service->scanning &&
	    (!keeper_awaits(keeper, JOB_LOOK) || now >= service->start_until))
		on_start(service);
	service->next_say = keeper_say_left_out(keeper) * NSEC_PER_SEC;
}

static void turn(struct service *service)
{
	int ms = timeout(service), nr;

	keeper_unlock(service->keeper);
	nr = poll(service->fds, service->nr_fds, ms);
	keeper_lock(service->keeper);
	if (nr < 0 && errno != EINTR) {
		log_line(LOG_ERR, "cannot wait for events: %s", strerror(errno));
		service->end = true;
		service->failed = true;
		return;
	}
	keeper_hear_news(service->keeper);
	ping_manager(service);
	publish_shares(service);
	read_signals(service);
	if (service->fds[2].revents)
		hear_parent(service);
	if (service->end)
		return;
	look_at_cpus(service);
	read_events(service);
	look_at_keeper(service);
	if (opts.parent)
		look_at_prepared(service);
}

/* ------------------------------------------------------------------------ */

static bool parse_number(const char *text, __u64 max, __u64 *number)
{
	char *end;

	errno = 0;
	*number = strtoull(text, &end, 10);
	return !errno && end != text && !*end && *text != '-' && *number <= max;
}

/* Names of directories, with colons between them */
static bool add_ahead(char *names)
{
	const char **more;
	char *name;

	while ((name = strsep(&names, ":"))) {
		if (!*name)
			return false;
		more = realloc(opts.ahead, (opts.nr_ahead + 2) * sizeof(*more));
		if (!more)
			return false;
		opts.ahead = more;
		opts.ahead[opts.nr_ahead++] = name;
		opts.ahead[opts.nr_ahead] = NULL;
	}
	return true;
}

static int parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "max-mb",		required_argument,	NULL, 'm' },
		{ "keep",		required_argument,	NULL, 's' },
		{ "keep-priority",	no_argument,		NULL, 'k' },
		{ "device",		required_argument,	NULL, 'd' },
		{ "exclude",		required_argument,	NULL, 'e' },
		{ "ahead",		required_argument,	NULL, 'a' },
		/* It never goes to the background. */
		{ "foreground",		no_argument,		NULL, 'f' },
		{ "parent",		no_argument,		NULL, 'p' },
		{ "only",		required_argument,	NULL, 'o' },
		{ }
	};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		switch (c) {
		case 'm':
			if (parse_number(optarg, UINT64_MAX >> 20, &opts.max_mb))
				break;
			log_error("serve: --max-mb %s: not a number of megabytes",
				  optarg);
			return EXIT_USAGE;
		case 's':
			if (parse_number(optarg, UINT32_MAX, &opts.keep))
				break;
			log_error("serve: --keep %s: not a number of seconds",
				  optarg);
			return EXIT_USAGE;
		case 'k':
			opts.keep_priority = true;
			break;
		case 'd':
			opts.device = optarg;
			break;
		case 'e':
			opts.exclude = optarg;
			break;
		case 'a':
			if (add_ahead(optarg))
				break;
			log_error("serve: --ahead: expected paths separated by colons");
			return EXIT_USAGE;
		case 'f':
			break;
		case 'p':
			opts.parent = true;
			break;
		case 'o':
			opts.only = optarg;
			if (!optarg[strspn(optarg, "0123456789,")])
				break;
			log_error("serve: --only=%s: expected process IDs separated by commas",
				  optarg);
			return EXIT_USAGE;
		case ':':
			log_error("serve: %s needs a value; see unwind-tables --help",
				  argv[optind - 1]);
			return EXIT_USAGE;
		default:
			log_error("serve: unknown option %s; see unwind-tables --help",
				  argv[optind - 1]);
			return EXIT_USAGE;
		}
	}
	if (optind < argc) {
		log_error("serve: unexpected argument %s; see unwind-tables --help",
			  argv[optind]);
		return EXIT_USAGE;
	}
	return EXIT_OK;
}

static int open_all(struct service *service)
{
	struct keeper_opts keeper_opts = {
		.device = opts.device,
		.max_bytes = opts.max_mb << 20,
		.keep_seconds = opts.keep,
		.ahead = opts.ahead,
		.complain = on_complaint,
	};
	const char *device = opts.device ?: KERNEL_DEVICE;
	int error;

	/* The tables that the kernel accepts depend on the capabilities that we have now. */
	error = keeper_open(&service->keeper, &keeper_opts);
	if (error == -ENOENT || error == -ENXIO || error == -ENODEV)
		log_no_device(device, -error);
	else if (error)
		log_error("%s: cannot open it: %s%s", device, strerror(-error),
			  error == -EPERM || error == -EACCES ?
			  "; CAP_PERFMON is needed" : "");
	if (error)
		return error;

	error = events_start() ?: events_open(&service->events);
	if (error) {
		log_error("cannot watch mappings by perf events: %s%s",
			  strerror(-error),
			  error == -EPERM || error == -EACCES ?
			  "; CAP_PERFMON is needed, on Debian's kernels CAP_SYS_ADMIN" : "");
		return error;
	}
	service->signals = open_signals();
	service->uevents = open_uevents();
	service->clock = open_clock();
	set_fds(service);
	return service->signals < 0 ? -errno : 0;
}

int cmd_serve(int argc, char **argv)
{
	struct service service = { };
	int ret;

	ret = parse(argc, argv);
	if (ret)
		return ret;
	/* The parent waits for the tables. */
	if (!opts.keep_priority && !opts.parent)
		lower_priority();
	raise_descriptors();
	meet_predecessors(&service);
	ret = process_mount_proc();
	if (ret && !opts.parent)
		log_line(LOG_WARNING,
			 "no procfs of its own: %s; users can have the service wait in /proc",
			 strerror(-ret));
	/* The parent need not listen. */
	signal(SIGPIPE, SIG_IGN);
	if (open_all(&service)) {
		keeper_close(service.keeper);
		events_close(service.events);
		return EXIT_FAILED;
	}
	drop_capabilities();

	tell_parent("watching\n");
	/* Ready before the scan, which may take long: mappings made meanwhile are noticed. */
	service.ping_ns = watchdog_ns();
	tell_manager("READY=1\nSTATUS=Looking at the programs that run");
	if (!service.nr_predecessors)
		keep_tables(&service);
	keeper_exclude(service.keeper, opts.exclude);
	service.starts = true;
	service.rescan = true;
	service.walks = opts.ahead;
	keeper_ahead(service.keeper);
	service.next_say = now_ns();
	while (!service.end)
		turn(&service);
	tell_manager("STOPPING=1");
	if (!opts.parent)
		log_stats(&service);
	/* Threads may be in waits that never end. */
	keeper_stop(service.keeper);
	_exit(service.failed ? EXIT_FAILED : EXIT_OK);
}
