// SPDX-License-Identifier: GPL-2.0
/*
 * unwindprof - where programs are on the CPU, or wait, as folded stacks or as a profile for
 * pprof. The kernel stack of a sample is taken at once; the user stack comes when the thread
 * returns to user space, and is joined with its samples by cookie.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <locale.h>
#include <search.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/perf_event.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <elfutils/libdwfl.h>
#include <gelf.h>
#ifdef HAVE_DEMANGLE
#include <libiberty/demangle.h>
#endif

#include "pprof.h"
#include "unwindprof.h"
#include "unwindprof.skel.h"

static struct {
	unsigned int frequency;
	unsigned int seconds;
	pid_t pid;
	bool off_cpu;
	unsigned long min_usecs;
	unsigned int waiters;
	bool by_cgroup;
	const char *output;
	const char *pprof;
	char **command;
} opts = { .frequency = 99, .waiters = 4096 };

static volatile sig_atomic_t stop;
/* No more records come: use those that are there. */
static bool draining;

static void on_signal(int sig)
{
	stop = 1;
}

void die(const char *what, int error)
{
	fprintf(stderr, "unwindprof: %s: %s\n", what, strerror(error));
	exit(1);
}

void *need(void *mem)
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

/* The kernel and its modules, for the mappings of a profile */
static Dwfl *kernel;

static char *debuginfo_path;

static const Dwfl_Callbacks callbacks = {
	.find_elf	= dwfl_linux_proc_find_elf,
	.find_debuginfo	= dwfl_standard_find_debuginfo,
	.debuginfo_path	= &debuginfo_path,
};

/* libdwfl would look for it in files, which need not be there. */
static int report_build_id(Dwfl_Module *module, void **userdata, const char *name,
			   Dwarf_Addr start, void *arg)
{
	char path[PATH_MAX] = "/sys/kernel/notes";
	Elf_Data data = { .d_type = ELF_T_NHDR, .d_version = EV_CURRENT };
	static unsigned char notes[4096];
	size_t at = 0, name_at, desc_at;
	GElf_Nhdr note;
	FILE *file;

	if (strcmp(name, "kernel"))
		snprintf(path, sizeof(path), "/sys/module/%s/notes/.note.gnu.build-id", name);
	file = fopen(path, "re");
	if (!file)
		return DWARF_CB_OK;
	data.d_buf = notes;
	data.d_size = fread(notes, 1, sizeof(notes), file);
	fclose(file);
	while ((at = gelf_getnote(&data, at, &note, &name_at, &desc_at)))
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof("GNU") &&
		    !memcmp(notes + name_at, "GNU", sizeof("GNU")))
			dwfl_module_report_build_id(module, notes + desc_at, note.n_descsz, 0);
	return DWARF_CB_OK;
}

static void read_kernel(void)
{
	kernel = need(dwfl_begin(&callbacks));
	/* Files that cannot be read give addresses only. */
	dwfl_linux_kernel_report_kernel(kernel);
	dwfl_linux_kernel_report_modules(kernel);
	dwfl_report_end(kernel, NULL, NULL);
	dwfl_getmodules(kernel, report_build_id, NULL, 0);
}

struct process {
	__u32 tgid;
	Dwfl *dwfl;
	/* When they were last read again without a new one */
	time_t in_vain;
};

static void *processes;

static int process_cmp(const void *a, const void *b)
{
	const struct process *x = a, *y = b;

	return x->tgid < y->tgid ? -1 : x->tgid > y->tgid;
}

/* The mappings as they are now: they may have changed, or be gone. */
static void process_read(struct process *process)
{
	Dwfl *dwfl;

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
	process->in_vain = 0;
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

/* Is a file mapped there now? Code that was made at run time has none. */
static bool has_file(__u32 tgid, unsigned long addr)
{
	struct procmap_query query = {
		.size		= sizeof(query),
		.query_flags	= PROCMAP_QUERY_FILE_BACKED_VMA,
		.query_addr	= addr,
	};
	char path[32];
	int maps;
	bool has;

	snprintf(path, sizeof(path), "/proc/%u/maps", tgid);
	maps = open(path, O_RDONLY | O_CLOEXEC);
	has = maps >= 0 && !ioctl(maps, PROCMAP_QUERY, &query);
	if (maps >= 0)
		close(maps);
	return has;
}

static Dwfl_Module *find_module(const struct process *process, unsigned long addr)
{
	return process->dwfl ? dwfl_addrmodule(process->dwfl, addr) : NULL;
}

/*
 * If there is a new mapping, all are read again. Its file may be one that libdwfl does not
 * take: so in vain not more than once a second.
 */
static Dwfl_Module *process_module(struct process *process, unsigned long addr)
{
	Dwfl_Module *module = find_module(process, addr);
	time_t now = time(NULL);

	if (module || process->in_vain == now || !has_file(process->tgid, addr))
		return module;
	process_read(process);
	module = find_module(process, addr);
	if (!module)
		process->in_vain = now;
	return module;
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

/*
 * Threads, files and functions can have any name. Unprintable characters may have a meaning
 * to a terminal; so have semicolons and blanks in folded stacks.
 */
static void clean(char *name)
{
	const char *from = name, *end = name + strlen(name);
	ssize_t len;
	wchar_t c;

	for (; from < end; from += len) {
		len = mbrtowc(&c, from, end - from, &(mbstate_t){ });
		if (len > 0 && (opts.pprof ? iswprint(c) : iswgraph(c) && c != ';')) {
			memmove(name, from, len);
			name += len;
		} else {
			*name++ = '_';
			len = len > 0 ? len : 1;
		}
	}
	*name = '\0';
}

/* The number that the profile has for a module; 0 without one, or without a profile */
static __u64 module_mapping(Dwfl_Module *module, bool is_kernel)
{
	struct pprof_mapping mapping;
	GElf_Addr start, end, vaddr;
	const char *name;
	void **number;
	char *file;

	if (!module || !opts.pprof)
		return 0;
	name = dwfl_module_info(module, &number, &start, &end, NULL, NULL, NULL, NULL);
	if (*number)
		return (unsigned long)*number;

	if (asprintf(&file, is_kernel ? "[%s]" : "%s", name) < 0)
		die("no memory", ENOMEM);
	clean(file);
	mapping.start = start;
	mapping.end = end;
	mapping.file = file;
	mapping.build_id_size = dwfl_module_build_id(module, &mapping.build_id, &vaddr);
	if (mapping.build_id_size < 0)
		mapping.build_id_size = 0;
	*number = (void *)(unsigned long)pprof_mapping(&mapping);
	free(file);
	return (unsigned long)*number;
}

/* A function of a stack */
struct frame {
	unsigned long addr;
	__u64 mapping;
	bool kernel;
	char name[512];
};

/* Of a caller, @addr is the one after the call, which may be in another function. */
static void user_frame(struct frame *frame, struct process *process, unsigned long addr,
		       bool caller)
{
	Dwfl_Module *module = process_module(process, addr - caller);
	const char *name = NULL, *file = NULL;
	size_t size = sizeof(frame->name);
	char *readable = NULL;
	GElf_Addr start = 0;

	if (module) {
		name = dwfl_module_addrname(module, addr - caller);
		file = dwfl_module_info(module, NULL, &start, NULL, NULL, NULL,
					NULL, NULL);
	}
	if (name) {
		readable = demangled(name);
		snprintf(frame->name, size, "%s", readable ?: name);
		free(readable);
	} else if (file) {
		snprintf(frame->name, size, "%s+0x%lx",
			 strrchr(file, '/') ? strrchr(file, '/') + 1 : file,
			 addr - (unsigned long)start);
	} else {
		snprintf(frame->name, size, "0x%lx", addr);
	}
	frame->addr = addr - caller;
	/* At once: the next frame may have the mappings read again. */
	frame->mapping = module_mapping(module, false);
	frame->kernel = false;
}

static void kernel_frame(struct frame *frame, unsigned long addr, bool caller)
{
	frame->addr = addr - caller;
	frame->mapping = kernel ? module_mapping(dwfl_addrmodule(kernel, frame->addr), true) : 0;
	frame->kernel = true;
	snprintf(frame->name, sizeof(frame->name), "%s",
		 ksym_name(frame->addr) ?: "[unknown]");
}

/* ------------------------------------------------------------------------ */
/* Names of cgroups							      */

#define CGROUPS	"/sys/fs/cgroup"

struct cgroup {
	__u64 id;
	char *name;
};

static void *cgroups;

static int cgroup_cmp(const void *a, const void *b)
{
	const struct cgroup *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* Unless it is known */
static void add_cgroup(__u64 id, const char *name)
{
	struct cgroup *cgroup = need(malloc(sizeof(*cgroup))), **found;

	cgroup->id = id;
	cgroup->name = need(strdup(name));
	clean(cgroup->name);
	found = need(tsearch(cgroup, &cgroups, cgroup_cmp));
	if (*found != cgroup) {
		free(cgroup->name);
		free(cgroup);
	}
}

/* The number of a cgroup is that of its directory's inode. */
static int see_cgroup(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
	const char *name = path + strlen(CGROUPS);

	if (type == FTW_D)
		add_cgroup(stat->st_ino, *name ? name : "/");
	return 0;
}

static const char *cgroup_name(__u64 id)
{
	struct cgroup key = { .id = id }, **found;
	char text[32];

	found = tfind(&key, &cgroups, cgroup_cmp);
	if (!found) {
		nftw(CGROUPS, see_cgroup, 16, FTW_PHYS | FTW_MOUNT);
		/* It is gone already. */
		snprintf(text, sizeof(text), "cgroup-%llu", (unsigned long long)id);
		add_cgroup(id, text);
		found = need(tfind(&key, &cgroups, cgroup_cmp));
	}
	return (*found)->name;
}

static void find_cgroups(void)
{
	struct statfs fs;

	if (statfs(CGROUPS, &fs))
		die(CGROUPS, errno);
	if (fs.f_type != CGROUP2_SUPER_MAGIC)
		die("version 2 of cgroups is not in " CGROUPS, ENODEV);
	nftw(CGROUPS, see_cgroup, 16, FTW_PHYS | FTW_MOUNT);
}

/* ------------------------------------------------------------------------ */
/* Stacks								      */

#define MAX_FRAMES	(KERNEL_DEPTH + USER_DEPTH)
#define NSEC_PER_SEC	1000000000ull

/* A different stack: its line, or the beginning of its sample in a profile */
struct folded {
	char *text;
	size_t len;
	__u64 weight;
	__u64 samples;
};

static void *all_folded;
static __u64 nr_samples, nr_deferred, nr_merged;

static int folded_cmp(const void *a, const void *b)
{
	const struct folded *x = a, *y = b;
	int ret = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);

	return ret ?: x->len < y->len ? -1 : x->len > y->len;
}

static void put_folded(FILE *out, const char *cgroup, const char *comm,
		       const struct frame *frames, int nr)
{
	if (cgroup)
		fprintf(out, "%s;", cgroup);
	fputs(comm, out);
	while (nr--)
		fprintf(out, ";%s%s", frames[nr].name, frames[nr].kernel ? "_[k]" : "");
}

static void put_pprof(FILE *out, const char *cgroup, const char *comm, __u32 tgid,
		      const struct frame *frames, int nr)
{
	static __u64 locations[MAX_FRAMES];
	char pid[16];
	int i;

	snprintf(pid, sizeof(pid), "%u", tgid);
	for (i = 0; i < nr; i++)
		locations[i] = pprof_location(frames[i].mapping, frames[i].addr,
					      frames[i].name);
	pprof_stack(out, locations, nr,
		    &(struct pprof_labels){ .comm = comm, .pid = pid, .cgroup = cgroup });
}

static void fold(const struct prof_head *head, const __u64 *user, int user_size)
{
	struct process *process = process_get(head->tgid);
	static struct frame frames[MAX_FRAMES];
	struct folded *folded, **found;
	char comm[sizeof(head->comm)];
	const char *cgroup = NULL;
	int i, nr = 0;
	FILE *out;

	for (i = 0; i < head->kernel_size / 8; i++)
		kernel_frame(&frames[nr++], head->kernel[i], i);
	for (i = 0; i < user_size / 8; i++)
		user_frame(&frames[nr++], process, user[i], i);
	if (user_size < 8)
		frames[nr++] = (struct frame){ .name = "[no user stack]" };
	for (i = 0; i < nr; i++)
		clean(frames[i].name);
	memcpy(comm, head->comm, sizeof(comm));
	clean(comm);
	if (opts.by_cgroup)
		cgroup = cgroup_name(head->cgroup);

	folded = need(calloc(1, sizeof(*folded)));
	out = need(open_memstream(&folded->text, &folded->len));
	if (opts.pprof)
		put_pprof(out, cgroup, comm, head->tgid, frames, nr);
	else
		put_folded(out, cgroup, comm, frames, nr);
	fclose(out);

	found = need(tsearch(folded, &all_folded, folded_cmp));
	(*found)->weight += head->weight;
	(*found)->samples++;
	if (*found != folded) {
		free(folded->text);
		free(folded);
	}
}

static void write_stack(const void *node, VISIT which, int depth)
{
	const struct folded *folded = *(struct folded **)node;

	if (which != postorder && which != leaf)
		return;
	if (!opts.pprof)
		printf("%s %llu\n", folded->text,
		       (unsigned long long)folded->weight);
	else if (opts.off_cpu)
		pprof_sample(folded->text, folded->len, folded->samples,
			     folded->weight * 1000);
	else
		pprof_sample(folded->text, folded->len, folded->samples,
			     folded->samples * NSEC_PER_SEC / opts.frequency);
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

/* Take all samples that wait for a stack, and fold them with it. */
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
 * The last stacks. A sample that interrupts the BPF program while it hands a stack over has
 * the stack's cookie but comes after it.
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

	/* Otherwise it would not end as long as there are more records. */
	return stop && !draining ? -EINTR : 0;
}

/* ------------------------------------------------------------------------ */

/* Options without a letter */
enum {
	OPT_OFF_CPU = 256,
	OPT_BY_CGROUP,
	OPT_PPROF,
};

static const struct argp_option options[] = {
	{ "frequency", 'F', "HZ", 0, "Samples a second on each CPU (default: 99)" },
	{ "pid", 'p', "PID", 0,
	  "Only this process and its new children (default: all processes)" },
	{ "duration", 'd', "SECONDS", 0,
	  "How long (default: until the command ends, or it is interrupted)" },
	{ "off-cpu", OPT_OFF_CPU, "USECS", OPTION_ARG_OPTIONAL,
	  "What threads wait for, that long at least (default: 0); numbers are microseconds" },
	{ "waiters", 'w', "THREADS", 0,
	  "With --off-cpu: how many may wait at the same time (default: 4096)" },
	{ "by-cgroup", OPT_BY_CGROUP, NULL, 0,
	  "Tell the stacks of different cgroups apart" },
	{ "output", 'o', "FILE", 0,
	  "Write the folded stacks to this file (default: standard output)" },
	{ "pprof", OPT_PPROF, "FILE", 0,
	  "Write a profile in pprof's format to this file, instead of folded stacks" },
	{ }
};

static unsigned long to_number(const char *arg, unsigned long least, struct argp_state *state)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(arg, &end, 10);
	if (errno || end == arg || *end || value > INT_MAX || value < least)
		argp_error(state, "'%s' is not a number in range", arg);
	return value;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'F':
		opts.frequency = to_number(arg, 1, state);
		break;
	case 'p':
		opts.pid = to_number(arg, 1, state);
		break;
	case 'd':
		opts.seconds = to_number(arg, 1, state);
		break;
	case OPT_OFF_CPU:
		opts.off_cpu = true;
		opts.min_usecs = arg ? to_number(arg, 0, state) : 0;
		break;
	case 'w':
		opts.waiters = to_number(arg, 1, state);
		break;
	case OPT_BY_CGROUP:
		opts.by_cgroup = true;
		break;
	case 'o':
		opts.output = arg;
		break;
	case OPT_PPROF:
		opts.pprof = arg;
		break;
	case ARGP_KEY_ARG:
		opts.command = &state->argv[state->next - 1];
		state->next = state->argc;
		break;
	case ARGP_KEY_END:
		if (opts.command && opts.pid)
			argp_error(state, "give a process or a command, not both");
		if (opts.output && opts.pprof)
			argp_error(state, "give --output or --pprof, not both");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp argp = {
	options, parse, "[COMMAND...]",
	"Print where programs spend their time as folded stacks, for flame graphs, or as a profile for pprof. User stacks are complete where programs have frame pointers or SFrame tables, and everywhere while the service unwind-tables runs."
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
	/* Otherwise it would not see the end of its parent. */
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

static __u64 now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return time.tv_sec * NSEC_PER_SEC + time.tv_nsec;
}

int main(int argc, char **argv)
{
	struct pprof_times times = { };
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
	if (opts.output && !freopen(opts.output, "we", stdout))
		die(opts.output, errno);
	if (opts.pprof)
		pprof_begin(opts.pprof);
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
	skel->rodata->by_cgroup = opts.by_cgroup;
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
	if (opts.pprof)
		read_kernel();
	if (opts.by_cgroup)
		find_cgroups();

	/* Requests are refused unless somebody listens. */
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

	times.start = now();
	if (!opts.off_cpu)
		times.period = NSEC_PER_SEC / opts.frequency;
	alarm(opts.seconds);
	while (!stop) {
		ret = ring_buffer__poll(ring, 100);
		if (ret < 0 && ret != -EINTR)
			die("cannot read the events", -ret);
	}

	for (i = 0; i < nr_cpus; i++)
		bpf_link__destroy(links[i]);
	unwindprof__detach(skel);
	times.duration = now() - times.start;
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
	twalk(all_folded, write_stack);
	if (opts.pprof)
		pprof_end(&times);
	else if (fflush(stdout))
		die("cannot write the stacks", errno);

	ring_buffer__free(ring);
	unwindprof__destroy(skel);
	/* A command that still runs is left alone. */
	if (!child || waitpid(child, &status, WNOHANG) != child)
		return 0;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
