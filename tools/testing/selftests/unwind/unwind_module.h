/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A session with the module test_unwind_deferred, which makes requests at places
 * of the kernel, and the log of their answers.
 */
#ifndef _SELFTESTS_UNWIND_MODULE_H
#define _SELFTESTS_UNWIND_MODULE_H

#include "unwind_test.h"

/* Values of the in-kernel API */
#define UT_QUEUED		0
#define UT_ALREADY_PENDING	1
#define UT_ALREADY_EXECUTED	2

/* As many addresses as the module logs; nr is the true number. */
#define UT_LOG_IPS	24

/*
 * One line of the log:
 *	R  a request; ret, cookie, context and, if ret is UT_ALREADY_EXECUTED,
 *	   the cached trace
 *	C  a callback; timestamp is the one from the engine
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

struct session {
	int		fd;
	struct log	log;
};

const char *need_module(void);
int __printf(2, 3) mod_cmd(int fd, const char *fmt, ...);
int mod_log(int fd, struct log *log);

void log_free(struct log *log);
struct log_entry *log_find(struct log *log, char type, int work,
			   unsigned int index);
struct log_entry *log_at(struct log *log, const char *point, int work,
			 unsigned int index);
struct log_entry *log_asked(struct log *log, const char *point, int work, int ret);
struct log_entry *log_only(struct log *log, char type, int work);
unsigned int log_count(struct log *log, char type, int work);
unsigned int log_rets(struct log *log, int work, int ret);
struct log_entry *log_answer(struct log *log, int work, uint64_t cookie);
struct log_entry *log_answer_to(struct log *log, const struct log_entry *request);
unsigned int log_answers(struct log *log, int work, uint64_t cookie);
bool log_is_chain(const struct log_entry *entry);
bool log_is_trace(const struct log_entry *entry, unsigned int nr, ...);
struct log_entry *log_unpaired(struct log *log);

int session_start(struct session *s, int works);
int probe_on(struct session *s, int nr, const char *point, pid_t tid, const char *how);
int session_wait(struct session *s, char type, int work, unsigned int nr);
void session_end(struct session *s);
void session_forget(struct session *s);
const char *switch_off(struct session *s);

#endif /* _SELFTESTS_UNWIND_MODULE_H */
