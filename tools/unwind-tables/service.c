// SPDX-License-Identifier: GPL-2.0
/*
 * unwind-tables serve: tables for the files of the processes that run, then for
 * what they and others map. Mappings are watched before the running processes are
 * looked at, so none is missed in between.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "unwind-keeper.h"
#include "unwind-tables.h"

#define DEFAULT_MAX_MB	256
#define DEFAULT_KEEP	300
#define NICE		10
#define SWEEP_SECONDS	30
/* A file that was looked at is not looked at again for so long. */
#define RECENT_NS	1000000000ull
#define NR_RECENT	1024
/* Descriptors that are no events */
#define NR_OTHERS	3

struct service {
	struct unwind_keeper *keeper;
	struct events *events;
	/*
	 * What poll() waits for: signals, changes of devices, whoever started us,
	 * then the events
	 */
	struct pollfd *fds;
	int nr_fds;
	int signals;
	int uevents;
	/* CPUs have come that are not watched. */
	bool blind;
	/* Files that were looked at a moment ago: a shell script starts the same
	 * programs again and again.
	 */
	struct {
		__u64 key;
		__u64 when;
	} recent[NR_RECENT];
	__u64 next_sweep;
	bool exited;
	bool rescan;
	/* There are tables to be made ahead; the state of the clocks when that began */
	bool ahead;
	__u64 ahead_cpu_ns;
	bool end;
	/* What has come of a line of the parent's */
	char line[PATH_MAX];
	size_t line_len;
};

static struct {
	/* Started by another program: ends with it, and tells it how far we are */
	bool parent;
	/* Only what is mapped from now on, and by these processes */
	const char *only;
	__u64 max_mb;
	bool keep_priority;
	__u64 keep;
	const char *device;
	/* Directories, the last one NULL; NULL if there are none */
	const char **ahead;
	unsigned int nr_ahead;
} opts = { .max_mb = DEFAULT_MAX_MB, .keep = DEFAULT_KEEP };

static __u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* ------------------------------------------------------------------------ */
/* Surroundings								      */

/* Tell systemd, if it started us, what sd_notify() would. */
static void tell_manager(const char *state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len;
	int fd;

	len = path ? strlen(path) : 0;
	if (!len || len >= sizeof(address.sun_path))
		return;
	memcpy(address.sun_path, path, len);
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (sendto(fd, state, strlen(state), MSG_NOSIGNAL,
		   (struct sockaddr *)&address,
		   offsetof(struct sockaddr_un, sun_path) + len) < 0)
		log_line(LOG_WARNING, "cannot notify the service manager: %s",
			 strerror(errno));
	close(fd);
}

static void lower_priority(void)
{
	struct sched_param param = { };

	errno = 0;
	if (getpriority(PRIO_PROCESS, 0) < NICE && !errno)
		setpriority(PRIO_PROCESS, 0, NICE);
	sched_setscheduler(0, SCHED_BATCH, &param);
}

/* A descriptor for each CPU may be more than the usual limit. */
static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* What is needed to look at other processes and to watch CPUs that come */
static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2];
	const __u64 keep = 1ull << CAP_PERFMON |
			      1ull << CAP_SYS_PTRACE |
			      1ull << CAP_DAC_READ_SEARCH |
			      1ull << CAP_CHECKPOINT_RESTORE;
	int i;

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (syscall(SYS_capget, &header, data))
		return;
	for (i = 0; i < 2; i++) {
		data[i].permitted &= keep >> (32 * i);
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	if (syscall(SYS_capset, &header, data))
		log_line(LOG_WARNING, "cannot give up capabilities: %s",
			 strerror(errno));
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

/* The kernel tells here that a CPU comes or goes. */
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

/* ------------------------------------------------------------------------ */
/* What there is to do							      */

static void on_complaint(void *arg, const char *message)
{
	log_line(LOG_WARNING, "%s", message);
}

static bool is_recent(const struct service *service, __u64 key, __u64 now)
{
	size_t slot = key % NR_RECENT;

	return service->recent[slot].key == key &&
	       now - service->recent[slot].when < RECENT_NS;
}

static void set_recent(struct service *service, __u64 key, __u64 now)
{
	size_t slot = key % NR_RECENT;

	service->recent[slot].key = key;
	service->recent[slot].when = now;
}

static void on_mapping(void *arg, pid_t pid, __u64 address, __u64 key)
{
	struct service *service = arg;
	__u64 now = now_ns();
	int ret;

	if (is_recent(service, key, now))
		return;
	ret = unwind_keeper_map(service->keeper, pid, address);
	/* The next process that has it may live longer. */
	if (!ret || ret == -ENODATA)
		set_recent(service, key, now);
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
		return;
	}
	free(service->fds);
	service->fds = fds;
	service->nr_fds = nr + NR_OTHERS;
	fds[0].fd = service->signals;
	fds[1].fd = service->uevents;
	fds[2].fd = opts.parent ? STDIN_FILENO : -1;
	for (i = 0; i < nr; i++)
		fds[i + NR_OTHERS].fd = events_fd(service->events, i);
	for (i = 0; i < nr + NR_OTHERS; i++)
		fds[i].events = POLLIN;
}

/* CPUs came or went. What they did until they are watched is found by a scan. */
static void reopen_events(struct service *service)
{
	struct events *events;
	int error;

	error = events_open(&events);
	if (error) {
		/* Once. Each sweep looks at all processes then, for what these CPUs do. */
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

static void drain_uevents(struct service *service)
{
	char message[4096];

	while (recv(service->uevents, message, sizeof(message), 0) > 0)
		;
}

static void read_signals(struct service *service)
{
	struct signalfd_siginfo info;

	while (read(service->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGHUP) {
			service->rescan = true;
			service->ahead = unwind_keeper_ahead_again(service->keeper);
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
		service->next_sweep = now_ns() + SWEEP_SECONDS * 1000000000ull;
	}
}

static void log_stats(struct service *service)
{
	struct unwind_keeper_stats stats;

	unwind_keeper_get_stats(service->keeper, &stats);
	log_line(LOG_INFO,
		 "%llu tables with %llu KB; %llu files looked at, %llu without unwind information, %llu refused; %llu tables dropped; %llu ms spent on making tables",
		 (unsigned long long)stats.tables,
		 (unsigned long long)stats.bytes >> 10,
		 (unsigned long long)stats.files,
		 (unsigned long long)stats.no_cfi,
		 (unsigned long long)stats.refused,
		 (unsigned long long)stats.dropped,
		 (unsigned long long)stats.build_ns / 1000000);
}

/* Of the reader and of this process */
static __u64 cpu_ns(const struct unwind_keeper_stats *stats)
{
	struct timespec own;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
	return own.tv_sec * 1000000000ull + own.tv_nsec + stats->cpu_ns;
}

static void log_ahead(const struct service *service,
		      const struct unwind_keeper_stats *stats)
{
	log_line(LOG_INFO,
		 "made ahead: %llu tables with %llu rows, %llu KB; %llu ms of CPU time",
		 (unsigned long long)stats->ahead,
		 (unsigned long long)stats->ahead_rows,
		 (unsigned long long)stats->ahead_bytes >> 10,
		 (unsigned long long)(cpu_ns(stats) - service->ahead_cpu_ns) / 1000000);
}

/* A little at a time: what is mapped meanwhile comes first. */
static void go_ahead(struct service *service)
{
	struct unwind_keeper_stats stats;

	unwind_keeper_get_stats(service->keeper, &stats);
	if (!service->ahead_cpu_ns)
		service->ahead_cpu_ns = cpu_ns(&stats);
	service->ahead = unwind_keeper_ahead(service->keeper);
	if (service->ahead)
		return;
	unwind_keeper_get_stats(service->keeper, &stats);
	log_ahead(service, &stats);
	service->ahead_cpu_ns = 0;
}

static void sweep(struct service *service)
{
	struct unwind_keeper_stats stats;

	/* It may find that there is more to be made ahead. */
	unwind_keeper_sweep(service->keeper);
	service->ahead = unwind_keeper_is_ahead_due(service->keeper);
	unwind_keeper_get_stats(service->keeper, &stats);
	/* What is kept for a while is looked at again. */
	service->exited = stats.unused;
	service->next_sweep = now_ns() + SWEEP_SECONDS * 1000000000ull;
	/* Uevents may be lost, or not be heard at all. */
	if (events_outdated(service->events))
		reopen_events(service);
	if (service->blind)
		service->rescan = true;
}

/* Until the next sweep, or without end if nothing has changed */
static int timeout(const struct service *service)
{
	__u64 now = now_ns();

	if (service->rescan || service->ahead || (service->exited && now >= service->next_sweep))
		return 0;
	if (service->exited)
		return (service->next_sweep - now) / 1000000 + 1;
	return service->uevents < 0 ? SWEEP_SECONDS * 1000 : -1;
}

/* Any thread stands for its process. */
static pid_t process_of(pid_t tid)
{
	char path[32], line[256];
	pid_t pid = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	file = fopen(path, "re");
	if (!file)
		return -1;
	while (pid < 0 && fgets(line, sizeof(line), file))
		if (sscanf(line, "Tgid: %d", &pid) != 1)
			pid = -1;
	fclose(file);
	return pid;
}

/* Tell the program that started us, if it asked for that. It need not listen. */
static void tell_parent(const char *line)
{
	if (opts.parent && write(STDOUT_FILENO, line, strlen(line)) < 0)
		log_line(LOG_WARNING, "cannot write to the program that started this: %s",
			 strerror(errno));
}

static void on_workload_file(void *arg, const char *path)
{
	struct service *service = arg;

	unwind_keeper_path(service->keeper, path);
}

/* Each line of the parent's names a program that is about to be started. */
static void hear_parent(struct service *service)
{
	char *line = service->line, *end;
	ssize_t len;

	len = read(STDIN_FILENO, line + service->line_len,
		   sizeof(service->line) - service->line_len);
	/* It has been closed; or the line is longer than any name. */
	if (len <= 0) {
		service->end = true;
		return;
	}
	service->line_len += len;
	while ((end = memchr(line, '\n', service->line_len))) {
		*end++ = '\0';
		workload_files(line, on_workload_file, service);
		tell_parent("done\n");
		service->line_len -= end - line;
		memmove(line, end, service->line_len);
	}
}

/* The processes of --only, which may be none */
static void see_to_only(struct service *service)
{
	const char *at = opts.only;
	pid_t last = 0;
	char *end;

	while (*at) {
		pid_t pid = process_of(strtol(at, &end, 10));

		/* The threads of a process often stand beside each other. */
		if (pid > 0 && pid != last)
			unwind_keeper_process(service->keeper, pid);
		last = pid;
		at = *end == ',' ? end + 1 : end;
	}
}

static void turn(struct service *service)
{
	if (poll(service->fds, service->nr_fds, timeout(service)) < 0 &&
	    errno != EINTR) {
		log_line(LOG_ERR, "cannot wait for events: %s", strerror(errno));
		service->end = true;
		return;
	}
	read_signals(service);
	if (service->fds[2].revents)
		hear_parent(service);
	if (service->end)
		return;
	if (service->fds[1].revents)
		drain_uevents(service);
	if ((service->fds[1].revents || service->uevents < 0) &&
	    events_outdated(service->events))
		reopen_events(service);
	read_events(service);
	if (service->rescan) {
		service->rescan = false;
		if (opts.only)
			see_to_only(service);
		else
			unwind_keeper_all(service->keeper);
	}
	if (service->exited && now_ns() >= service->next_sweep)
		sweep(service);
	if (service->ahead)
		go_ahead(service);
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
			error_line("serve: --max-mb %s: not a number of megabytes",
				   optarg);
			return EXIT_USAGE;
		case 's':
			if (parse_number(optarg, UINT32_MAX, &opts.keep))
				break;
			error_line("serve: --keep %s: not a number of seconds",
				   optarg);
			return EXIT_USAGE;
		case 'k':
			opts.keep_priority = true;
			break;
		case 'd':
			opts.device = optarg;
			break;
		case 'a':
			if (add_ahead(optarg))
				break;
			error_line("serve: --ahead: expected directories separated by colons");
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
			error_line("serve: --only=%s: expected process IDs separated by commas",
				   optarg);
			return EXIT_USAGE;
		case ':':
			error_line("serve: %s needs a value; see unwind-tables --help",
				   argv[optind - 1]);
			return EXIT_USAGE;
		default:
			error_line("serve: unknown option %s; see unwind-tables --help",
				   argv[optind - 1]);
			return EXIT_USAGE;
		}
	}
	if (optind < argc) {
		error_line("serve: unexpected argument %s; see unwind-tables --help",
			   argv[optind]);
		return EXIT_USAGE;
	}
	return EXIT_OK;
}

static int open_all(struct service *service)
{
	struct unwind_keeper_opts keeper_opts = {
		.device = opts.device,
		.max_bytes = opts.max_mb << 20,
		.keep_seconds = opts.keep,
		.ahead = opts.ahead,
		.complain = on_complaint,
	};
	const char *device = opts.device ?: DEVICE_NAME;
	int error;

	error = unwind_keeper_open(&service->keeper, &keeper_opts);
	if (error == -ENOENT || error == -ENXIO || error == -ENODEV)
		no_device(device, -error);
	else if (error)
		error_line("%s: cannot open it: %s%s", device, strerror(-error),
			   error == -EPERM || error == -EACCES ?
			   "; CAP_PERFMON is needed" : "");
	if (error)
		return error;

	error = events_open(&service->events);
	if (error) {
		error_line("cannot watch mappings by perf events: %s%s",
			   strerror(-error),
			   error == -EPERM || error == -EACCES ?
			   "; CAP_PERFMON is needed, on Debian's kernels CAP_SYS_ADMIN" : "");
		return error;
	}
	service->signals = open_signals();
	service->uevents = open_uevents();
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
	/* The parent waits for what it asks for. */
	if (!opts.keep_priority && !opts.parent)
		lower_priority();
	raise_descriptors();
	/* The parent need not listen. */
	signal(SIGPIPE, SIG_IGN);
	if (open_all(&service)) {
		unwind_keeper_close(service.keeper);
		events_close(service.events);
		return EXIT_FAILED;
	}
	drop_capabilities();

	tell_parent("watching\n");
	if (opts.only)
		see_to_only(&service);
	else
		unwind_keeper_all(service.keeper);
	tell_parent("ready\n");
	if (!opts.parent)
		log_stats(&service);
	tell_manager("READY=1\nSTATUS=Keeping tables for running programs");
	service.ahead = !!opts.ahead;
	while (!service.end)
		turn(&service);
	tell_manager("STOPPING=1");
	if (!opts.parent)
		log_stats(&service);

	free(service.fds);
	events_close(service.events);
	unwind_keeper_close(service.keeper);
	free(opts.ahead);
	return EXIT_OK;
}
