// SPDX-License-Identifier: GPL-2.0
/*
 * A session with the module test_unwind_deferred.
 */
#include "unwind_chain.h"
#include "unwind_module.h"

#define UT_MODULE	"test_unwind_deferred"
#define UT_SESSION	"/sys/kernel/debug/unwind_test/session"

const char *need_module(void)
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
 * Start a session. All that was set up through it is removed when its last
 * descriptor is closed, however the test ends. Returns fd or -errno.
 */
static int mod_open(void)
{
	int fd = open(UT_SESSION, O_RDWR | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Send one command. Returns 0 or -errno. */
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

static bool log_parse(char *line, struct log_entry *entry)
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
 * Append to @log the lines that the session has logged since the last call.
 * Start with a zeroed log. Returns 0, or -errno.
 */
int mod_log(int fd, struct log *log)
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

void log_free(struct log *log)
{
	free(log->entries);
	memset(log, 0, sizeof(*log));
}

static bool is_of(const struct log_entry *entry, char type, int work)
{
	return entry->type == type && (work < 0 || entry->work == work);
}

/* The @index-th entry of @type and @work (-1: any), from 0; or NULL. */
struct log_entry *log_find(struct log *log, char type, int work,
			   unsigned int index)
{
	unsigned int i;

	for (i = 0; i < log->nr; i++)
		if (is_of(&log->entries[i], type, work) && index-- == 0)
			return &log->entries[i];
	return NULL;
}

/* The index-th request that was made at @point; or NULL. */
struct log_entry *log_at(struct log *log, const char *point, int work,
			 unsigned int index)
{
	unsigned int i;

	for (i = 0; i < log->nr; i++)
		if (is_of(&log->entries[i], 'R', work) &&
		    !strcmp(log->entries[i].point, point) && index-- == 0)
			return &log->entries[i];
	return NULL;
}

/*
 * The first request of @work at @point. NULL if there is none, or if it has returned
 * something else than @ret.
 */
struct log_entry *log_asked(struct log *log, const char *point, int work, int ret)
{
	struct log_entry *entry = log_at(log, point, work, 0);

	if (!entry || entry->ret == ret)
		return entry;
	fprintf(stderr, "# the request at %s returned %d, not %d\n", point, entry->ret, ret);
	return NULL;
}

unsigned int log_count(struct log *log, char type, int work)
{
	unsigned int i, nr = 0;

	for (i = 0; i < log->nr; i++)
		nr += is_of(&log->entries[i], type, work);
	return nr;
}

/* The only entry of @type and @work; NULL if there is another number of them. */
struct log_entry *log_only(struct log *log, char type, int work)
{
	unsigned int nr = log_count(log, type, work);

	if (nr == 1)
		return log_find(log, type, work, 0);
	fprintf(stderr, "# %u entries %c of work %d\n", nr, type, work);
	return NULL;
}

/* How many requests by @work returned @ret. */
unsigned int log_rets(struct log *log, int work, int ret)
{
	unsigned int i, nr = 0;

	for (i = 0; i < log->nr; i++)
		nr += is_of(&log->entries[i], 'R', work) && log->entries[i].ret == ret;
	return nr;
}

/* How many callbacks of @work came with @cookie. */
unsigned int log_answers(struct log *log, int work, uint64_t cookie)
{
	unsigned int i, nr = 0;

	for (i = 0; i < log->nr; i++)
		nr += is_of(&log->entries[i], 'C', work) &&
		      log->entries[i].cookie == cookie;
	return nr;
}

/* The callback of @work for @cookie, or NULL. */
struct log_entry *log_answer(struct log *log, int work, uint64_t cookie)
{
	unsigned int i;

	for (i = 0; i < log->nr; i++)
		if (is_of(&log->entries[i], 'C', work) && log->entries[i].cookie == cookie)
			return &log->entries[i];
	return NULL;
}

/* The answer to a request, or NULL. */
struct log_entry *log_answer_to(struct log *log, const struct log_entry *request)
{
	return request ? log_answer(log, request->work, request->cookie) : NULL;
}

/* Is the trace of @entry that of a chain_syscall()? */
bool log_is_chain(const struct log_entry *entry)
{
	return entry && chain_syscall_ok(entry->ips, entry->nr);
}

/* Has the trace of @entry these @nr frames, given as pointers, and no others? */
bool log_is_trace(const struct log_entry *entry, unsigned int nr, ...)
{
	bool equal = entry && entry->nr == nr;
	va_list args;
	unsigned int i;

	va_start(args, nr);
	for (i = 0; i < nr && equal; i++)
		equal = entry->ips[i] == (unsigned long)va_arg(args, const void *);
	va_end(args);
	for (i = 0; entry && !equal && i < entry->nr && i < UT_LOG_IPS; i++)
		fprintf(stderr, "# frame %u is %#lx\n", i, (unsigned long)entry->ips[i]);
	return equal;
}

/*
 * The rule of all rules: every cookie that a work was given has exactly one
 * callback of that work, and every callback was asked for. Returns NULL or
 * the first entry that breaks it.
 */
struct log_entry *log_unpaired(struct log *log)
{
	struct log_entry *e, *f;
	unsigned int i, j, other;

	for (i = 0; i < log->nr; i++) {
		e = &log->entries[i];
		if (e->type != 'C' && (e->type != 'R' || e->ret < 0))
			continue;
		if (e->type == 'R' && e->ret == UT_ALREADY_PENDING)
			continue;
		other = 0;
		/* Most partners are near. */
		for (j = 0; j < log->nr; j++) {
			f = &log->entries[j];
			if (f->work != e->work || f->cookie != e->cookie)
				continue;
			if (e->type == 'R')
				other += f->type == 'C';
			else
				other += f->type == 'R' && f->ret == UT_QUEUED;
		}
		if (other != 1)
			return e;
	}
	return NULL;
}

/* Open a session with works 0 to @works - 1, armed. Returns 0 or -errno. */
int session_start(struct session *s, int works)
{
	int i, ret;

	memset(s, 0, sizeof(*s));
	s->fd = mod_open();
	if (s->fd < 0)
		return s->fd;
	for (i = 0; i < works; i++) {
		ret = mod_cmd(s->fd, "init %d", i);
		if (ret)
			return ret;
	}
	return mod_cmd(s->fd, "arm");
}

/*
 * Have thread @tid asked for its stack at @point, with probe @nr. @how is what the module
 * takes: "WORKS CONTEXT SKIP MAX", a mask of works and numbers of hits.
 */
int probe_on(struct session *s, int nr, const char *point, pid_t tid, const char *how)
{
	return mod_cmd(s->fd, "probe %d %s %d %s", nr, point, tid, how);
}

/* Read the log until it has @nr entries of @type and @work. Returns 0 or -errno. */
int session_wait(struct session *s, char type, int work, unsigned int nr)
{
	int ret = mod_log(s->fd, &s->log);

	while (!ret && log_count(&s->log, type, work) < nr) {
		usleep(1000);
		ret = mod_log(s->fd, &s->log);
	}
	return ret;
}

void session_end(struct session *s)
{
	close(s->fd);
	log_free(&s->log);
}

/* Forget the log, after reading all of it. */
void session_forget(struct session *s)
{
	mod_log(s->fd, &s->log);
	log_free(&s->log);
}

/*
 * Disarm, and wait until the engine is off, which it never is while somebody
 * else uses it. Returns an error, or an empty string.
 */
const char *switch_off(struct session *s)
{
	unsigned int before = log_rets(&s->log, 1, -EINVAL);
	int tries;

	if (mod_cmd(s->fd, "disarm"))
		return "disarm failed";
	for (tries = 0; tries < 300; tries++) {
		/* Not work 0: its callbacks are counted. */
		if (mod_cmd(s->fd, "req 2 task") || mod_log(s->fd, &s->log))
			return "request failed";
		if (log_rets(&s->log, 1, -EINVAL) > before) {
			/* It refuses first; then the hooks are removed. */
			usleep(500000);
			return "";
		}
		usleep(50000);
	}
	return "it is still on: is there a profiler?";
}
