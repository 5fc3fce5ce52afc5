// SPDX-License-Identifier: GPL-2.0
/*
 * unwindprof - where programs are on the CPU, or what they wait for, as folded
 * stacks. The kernel stack of a sample is taken at once; the user stack comes
 * when the thread returns to user space, and is joined with its samples by cookie.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <search.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>
#include <linux/perf_event.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <elfutils/libdwfl.h>
#ifdef HAVE_DEMANGLE
#include <libiberty/demangle.h>
#endif

#include "unwindprof.h"
#include "unwindprof.skel.h"

static struct {
	unsigned int frequency;
	unsigned int seconds;
	pid_t pid;
	bool off_cpu;
	unsigned long min_usecs;
	unsigned int waiters;
	char **command;
} opts = { .frequency = 99, .waiters = 4096 };

static volatile sig_atomic_t stop;
/* Nothing more comes, take what is there. */
static bool draining;

static void on_signal(int sig)
{
	stop = 1;
}

static void die(const char *what, int error)
{
	fprintf(stderr, "unwindprof: %s: %s\n", what, strerror(error));
	exit(1);
}

static void *need(void *mem)
{
	if (!mem)
		die("no memory", ENOMEM);
	return mem;
}

/* ------------------------------------------------------------------------ */
/* Names of addresses							      */

struct ksym {
	unsigned long addr;
	char *name;
};

static struct ksym *ksyms;
static size_t nr_ksyms;

static int ksym_cmp(const void *a, const void *b)
{
	const struct ksym *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static void read_ksyms(void)
{
	FILE *file = fopen("/proc/kallsyms", "r");
	unsigned long addr;
	char name[256];
	size_t size = 0;

	while (file && fscanf(file, "%lx %*c %255s%*[^\n]", &addr, name) == 2) {
		if (nr_ksyms == size) {
			size = size ? 2 * size : 65536;
			ksyms = need(realloc(ksyms, size * sizeof(*ksyms)));
		}
		ksyms[nr_ksyms].addr = addr;
		ksyms[nr_ksyms++].name = need(strdup(name));
	}
	if (file)
		fclose(file);
	qsort(ksyms, nr_ksyms, sizeof(*ksyms), ksym_cmp);
}

static const char *ksym_name(unsigned long addr)
{
	size_t low = 0, high = nr_ksyms;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (ksyms[mid].addr <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	/* Without permission all addresses are 0. */
	return low && ksyms[low - 1].addr ? ksyms[low - 1].name : NULL;
}

static char *debuginfo_path;

static const Dwfl_Callbacks callbacks = {
	.find_elf	= dwfl_linux_proc_find_elf,
	.find_debuginfo	= dwfl_standard_find_debuginfo,
	.debuginfo_path	= &debuginfo_path,
};

struct process {
	__u32 tgid;
	Dwfl *dwfl;
	/* When the mappings were looked at; 0: have to be */
	time_t read_at;
};

static void *processes;

static int process_cmp(const void *a, const void *b)
{
	const struct process *x = a, *y = b;

	return x->tgid < y->tgid ? -1 : x->tgid > y->tgid;
}

/*
 * The mappings as they are now: they may have changed, or be gone. Not at each
 * address that is in none of them, there may be many.
 */
static void process_read(struct process *process)
{
	time_t now = time(NULL);
	Dwfl *dwfl;

	if (process->read_at == now)
		return;
	process->read_at = now;

	dwfl = need(dwfl_begin(&callbacks));
	if (dwfl_linux_proc_report(dwfl, process->tgid) ||
	    dwfl_report_end(dwfl, NULL, NULL)) {
		dwfl_end(dwfl);
		return;
	}
	if (process->dwfl)
		dwfl_end(process->dwfl);
	process->dwfl = dwfl;
}

static void process_forget(__u32 tgid, bool gone)
{
	struct process key = { .tgid = tgid }, *process, **found;

	found = tfind(&key, &processes, process_cmp);
	if (!found)
		return;
	process = *found;
	if (process->dwfl)
		dwfl_end(process->dwfl);
	process->dwfl = NULL;
	process->read_at = 0;
	if (gone) {
		tdelete(process, &processes, process_cmp);
		free(process);
	}
}

static struct process *process_get(__u32 tgid)
{
	struct process key = { .tgid = tgid }, *process, **found;

	found = tfind(&key, &processes, process_cmp);
	if (found)
		return *found;
	process = need(calloc(1, sizeof(*process)));
	process->tgid = tgid;
	process_read(process);
	need(tsearch(process, &processes, process_cmp));
	return process;
}

static Dwfl_Module *process_module(struct process *process, unsigned long addr)
{
	return process->dwfl ? dwfl_addrmodule(process->dwfl, addr) : NULL;
}

/* What a C++ or Rust function is called in its source, without its parameters */
static char *demangled(const char *name)
{
#ifdef HAVE_DEMANGLE
	return cplus_demangle(name, DMGL_AUTO | DMGL_NO_OPTS);
#else
	return NULL;
#endif
}

/* Of a caller, @addr is the one after the call, which may be in another function. */
static void user_name(char *text, size_t size, struct process *process,
		      unsigned long addr, bool caller)
{
	Dwfl_Module *module = process_module(process, addr - caller);
	const char *name = NULL, *file = NULL;
	char *readable = NULL;
	GElf_Addr start = 0;

	if (!module) {
		process_read(process);
		module = process_module(process, addr - caller);
	}
	if (module) {
		name = dwfl_module_addrname(module, addr - caller);
		file = dwfl_module_info(module, NULL, &start, NULL, NULL, NULL,
					NULL, NULL);
	}
	if (name) {
		readable = demangled(name);
		snprintf(text, size, "%s", readable ?: name);
		free(readable);
	} else if (file) {
		snprintf(text, size, "%s+0x%lx",
			 strrchr(file, '/') ? strrchr(file, '/') + 1 : file,
			 addr - (unsigned long)start);
	} else {
		snprintf(text, size, "0x%lx", addr);
	}
}

/* ------------------------------------------------------------------------ */
/* Folded stacks							      */

struct folded {
	char *text;
	__u64 weight;
};

static void *all_folded;
static __u64 nr_samples, nr_deferred, nr_merged;

static int folded_cmp(const void *a, const void *b)
{
	return strcmp(((struct folded *)a)->text, ((struct folded *)b)->text);
}

/*
 * Threads, files and functions can have any name. Semicolons and blanks have a
 * meaning in folded stacks, and what is not printable may have one to a terminal.
 */
static void put(FILE *out, const char *name)
{
	const char *end = name + strlen(name);
	ssize_t len;
	wchar_t c;

	for (; name < end; name += len) {
		len = mbrtowc(&c, name, end - name, &(mbstate_t){ });
		if (len > 0 && iswgraph(c) && c != ';') {
			fwrite(name, len, 1, out);
		} else {
			fputc('_', out);
			len = len > 0 ? len : 1;
		}
	}
}

static void put_frame(FILE *out, const char *name)
{
	fputc(';', out);
	put(out, name);
}

static void fold(const struct prof_head *head, const __u64 *user, int user_size)
{
	struct process *process = process_get(head->tgid);
	struct folded *folded, **found;
	char *text, name[512];
	size_t len;
	FILE *out;
	int i;

	out = need(open_memstream(&text, &len));
	put(out, head->comm);
	for (i = user_size / 8 - 1; i >= 0; i--) {
		user_name(name, sizeof(name), process, user[i], i);
		put_frame(out, name);
	}
	if (user_size < 8)
		put_frame(out, "[no user stack]");
	for (i = head->kernel_size / 8 - 1; i >= 0; i--) {
		snprintf(name, sizeof(name), "%s_[k]",
			 ksym_name(head->kernel[i] - !!i) ?: "[unknown]");
		put_frame(out, name);
	}
	fclose(out);

	folded = need(calloc(1, sizeof(*folded)));
	folded->text = text;
	found = need(tsearch(folded, &all_folded, folded_cmp));
	(*found)->weight += head->weight;
	if (*found != folded) {
		free(text);
		free(folded);
	}
}

static void print_folded(const void *node, VISIT which, int depth)
{
	const struct folded *folded = *(struct folded **)node;

	if (which == postorder || which == leaf)
		printf("%s %llu\n", folded->text,
		       (unsigned long long)folded->weight);
}

/* ------------------------------------------------------------------------ */
/* Samples and their stacks						      */

/*
 * Samples of one thread that wait for a user stack, the first one ahead. They
 * have the same cookie: a thread has one open request at a time.
 */
struct waiting {
	__u32 tid;
	__u64 cookie;
	struct waiting *next;
	struct prof_head head;
};

static void *all_waiting;

static int waiting_cmp(const void *a, const void *b)
{
	const struct waiting *x = a, *y = b;

	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static struct waiting *waiting_get(__u32 tid)
{
	struct waiting key = { .tid = tid }, **found;

	found = tfind(&key, &all_waiting, waiting_cmp);
	return found ? *found : NULL;
}

/* Take all that wait for a stack, and fold them with it. */
static void merge(struct waiting *waiting, const __u64 *user, int size)
{
	struct waiting *next;

	tdelete(waiting, &all_waiting, waiting_cmp);
	for (; waiting; waiting = next) {
		next = waiting->next;
		fold(&waiting->head, user, size);
		free(waiting);
	}
}

/*
 * The last stacks. A sample that interrupts the program that hands one over, in
 * the kernel, has its cookie but comes after it.
 */
static struct prof_stack *recent[256];
static unsigned int next_recent;

static void keep(const struct prof_stack *stack)
{
	struct prof_stack **slot = &recent[next_recent++ % 256];

	if (!*slot)
		*slot = need(malloc(sizeof(**slot)));
	**slot = *stack;
}

static const struct prof_stack *find_recent(__u64 cookie)
{
	int i;

	for (i = 0; i < 256; i++)
		if (recent[i] && recent[i]->cookie == cookie)
			return recent[i];
	return NULL;
}

static void on_stack(const struct prof_stack *stack)
{
	struct waiting *waiting = waiting_get(stack->tid), *each;

	keep(stack);
	/* Asked for by another program, or not off for long enough */
	if (!waiting || waiting->cookie != stack->cookie)
		return;
	for (each = waiting; each; each = each->next)
		nr_merged++;
	merge(waiting, stack->user, stack->size);
}

static void on_sample(const struct prof_sample *sample)
{
	const struct prof_head *head = &sample->head;
	const struct prof_stack *known;
	struct waiting *waiting, *first;

	nr_samples++;
	if (!head->cookie) {
		fold(head, sample->user, head->user_size);
		return;
	}

	nr_deferred++;
	known = find_recent(head->cookie);
	if (known) {
		nr_merged++;
		fold(head, known->user, known->size);
		return;
	}

	/* The stack of others was lost. */
	first = waiting_get(head->tid);
	if (first && first->cookie != head->cookie) {
		merge(first, NULL, 0);
		first = NULL;
	}

	waiting = need(calloc(1, sizeof(*waiting)));
	waiting->tid = head->tid;
	waiting->cookie = head->cookie;
	waiting->head = *head;
	if (first) {
		waiting->next = first->next;
		first->next = waiting;
	} else {
		need(tsearch(waiting, &all_waiting, waiting_cmp));
	}
}

static int on_event(void *ctx, void *data, size_t size)
{
	const struct prof_process *process = data;

	switch (process->type) {
	case EVENT_SAMPLE:
		on_sample(data);
		break;
	case EVENT_STACK:
		on_stack(data);
		break;
	default:
		process_forget(process->tgid, process->type == EVENT_EXIT);
	}

	/* Or it would not end as long as there is more. */
	return stop && !draining ? -EINTR : 0;
}

/* ------------------------------------------------------------------------ */

static const struct argp_option options[] = {
	{ "frequency", 'F', "HZ", 0, "Samples a second on each CPU (99)" },
	{ "pid", 'p', "PID", 0, "Only this process and its new children" },
	{ "duration", 'd', "SECONDS", 0, "How long; without, until interrupted" },
	{ "off-cpu", 'o', "USECS", OPTION_ARG_OPTIONAL,
	  "What threads wait for, that long at least; numbers are microseconds" },
	{ "waiters", 'w', "THREADS", 0,
	  "With --off-cpu: how many may wait at the same time (4096)" },
	{ }
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	char *end = "";
	unsigned long value = 0;

	if (arg && key != ARGP_KEY_ARG) {
		errno = 0;
		value = strtoul(arg, &end, 10);
		if (errno || end == arg || *end || value > INT_MAX ||
		    (!value && key != 'o'))
			argp_error(state, "'%s' is not a number in range", arg);
	}

	switch (key) {
	case 'F':
		opts.frequency = value;
		break;
	case 'p':
		opts.pid = value;
		break;
	case 'd':
		opts.seconds = value;
		break;
	case 'o':
		opts.off_cpu = true;
		opts.min_usecs = value;
		break;
	case 'w':
		opts.waiters = value;
		break;
	case ARGP_KEY_ARG:
		opts.command = &state->argv[state->next - 1];
		state->next = state->argc;
		break;
	case ARGP_KEY_END:
		if (opts.command && opts.pid)
			argp_error(state, "give a process or a command, not both");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp argp = {
	options, parse, "[COMMAND...]",
	"Print where programs spend their time as folded stacks, for flame graphs. User stacks are complete where programs have frame pointers or SFrame tables, and everywhere while the service unwind-tables runs."
};

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	return level == LIBBPF_WARN ? vfprintf(stderr, format, args) : 0;
}

/* Start the command, but let it wait for a byte. */
static pid_t start_command(const int go[2])
{
	pid_t pid = fork();
	char byte;

	if (pid < 0)
		die("fork", errno);
	if (pid)
		return pid;
	/* Or it would not see the end of its parent. */
	close(go[1]);
	if (read(go[0], &byte, 1) != 1)
		_exit(127);
	execvp(opts.command[0], opts.command);
	die(opts.command[0], errno);
	return 0;
}

static void sample_cpus(struct unwindprof *skel, struct bpf_link **links, int nr)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.freq = 1,
		.sample_freq = opts.frequency,
	};
	int cpu, fd, opened = 0;

	for (cpu = 0; cpu < nr; cpu++) {
		fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1,
			     PERF_FLAG_FD_CLOEXEC);
		/* A CPU that is offline */
		if (fd < 0 && errno == ENODEV)
			continue;
		if (fd < 0)
			die("perf_event_open", errno);
		links[cpu] = bpf_program__attach_perf_event(skel->progs.on_cpu, fd);
		if (!links[cpu])
			die("cannot attach to the clock", errno);
		opened++;
	}
	if (!opened)
		die("no CPU", ENODEV);
}

int main(int argc, char **argv)
{
	int go[2], ret, i, status = 0, nr_cpus = libbpf_num_possible_cpus();
	struct bpf_link **links;
	struct ring_buffer *ring;
	struct unwindprof *skel;
	pid_t child = 0;
	__u32 target;
	__u8 one = 1;

	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, NULL);
	libbpf_set_print(quiet);
	/* Names are UTF-8, if anything, whatever the user's locale is. */
	setlocale(LC_CTYPE, "C.UTF-8");
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	signal(SIGALRM, on_signal);

	if (opts.command) {
		signal(SIGCHLD, on_signal);
		if (pipe2(go, O_CLOEXEC))
			die("pipe", errno);
		child = start_command(go);
	}
	target = opts.command ? child : opts.pid;
	links = need(calloc(nr_cpus, sizeof(*links)));

	skel = unwindprof__open();
	if (!skel)
		die("cannot open the BPF programs", errno);
	skel->rodata->target = target;
	skel->rodata->self = getpid();
	skel->rodata->min_usecs = opts.min_usecs;
	bpf_program__set_autoload(skel->progs.off_cpu, opts.off_cpu);
	bpf_program__set_autoload(skel->progs.on_cpu, !opts.off_cpu);
	if (opts.off_cpu)
		bpf_map__set_max_entries(skel->maps.waiters, opts.waiters);
	ret = unwindprof__load(skel);
	if (ret)
		die("cannot load the BPF programs (is it a kernel with UNWIND_USER and BTF?)",
		    -ret);
	if (target && bpf_map__update_elem(skel->maps.processes, &target,
					   sizeof(target), &one, sizeof(one), BPF_ANY))
		die("cannot set the process", errno);
	ring = ring_buffer__new(bpf_map__fd(skel->maps.events), on_event, NULL, NULL);
	if (!ring)
		die("cannot read the events", errno);
	read_ksyms();

	/* Whoever asks must have somebody who listens. */
	skel->links.complete = bpf_program__attach(skel->progs.complete);
	if (!skel->links.complete)
		die("cannot attach to unwind_deferred_complete", errno);
	ret = unwindprof__attach(skel);
	if (ret)
		die("cannot attach", -ret);
	if (!opts.off_cpu)
		sample_cpus(skel, links, nr_cpus);
	if (child && write(go[1], "", 1) != 1)
		die("cannot start the command", errno);

	alarm(opts.seconds);
	while (!stop) {
		ret = ring_buffer__poll(ring, 100);
		if (ret < 0 && ret != -EINTR)
			die("cannot read the events", -ret);
	}

	for (i = 0; i < nr_cpus; i++)
		bpf_link__destroy(links[i]);
	unwindprof__detach(skel);
	draining = true;
	ring_buffer__consume(ring);

	if (skel->bss->unseen)
		fprintf(stderr,
			"%llu waits were not recorded: more than %u threads waited (see --waiters)\n",
			(unsigned long long)skel->bss->unseen, opts.waiters);
	fprintf(stderr, "%llu samples, %llu waited for a stack, %llu got one, %llu records lost\n",
		(unsigned long long)nr_samples, (unsigned long long)nr_deferred,
		(unsigned long long)nr_merged, (unsigned long long)skel->bss->lost);
	/* Threads that have not been back in user space */
	while (all_waiting)
		merge(*(struct waiting **)all_waiting, NULL, 0);
	twalk(all_folded, print_folded);

	ring_buffer__free(ring);
	unwindprof__destroy(skel);
	/* A command that runs on is on its own. */
	if (!child || waitpid(child, &status, WNOHANG) != child)
		return 0;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
