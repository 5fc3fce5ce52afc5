// SPDX-License-Identifier: GPL-2.0
/* Asks the reader of a share, which does everything that can block or crash: see worker.c */
#include <stdio.h>
#include <string.h>

#include "internal.h"

/* The mapping that the reader was at last */
static const struct mapping *last_mapping(const struct reader *reader)
{
	if (reader->page->question == READER_LIST || !reader->nr_mappings)
		return NULL;
	return &reader->page->mappings[reader->nr_mappings - 1];
}

const char *keeper_file_name(const struct worker *worker, char *text, size_t size)
{
	const struct reader_page *page = worker->reader.page;
	const struct mapping *last = last_mapping(&worker->reader);

	if (page->name[0])
		snprintf(text, size, "%s", page->name);
	else if (!page->pid)
		snprintf(text, size, "%.140s/%.150s", page->directory, page->path);
	else
		snprintf(text, size, "a file that process %d has at %#llx",
			 page->pid, (unsigned long long)
			 (last ? last->start : page->address));
	return text;
}

/* The reader was at some file, or had not got to one when it did not go on. */
static void complain_slow(struct worker *worker)
{
	const struct reader_page *page = worker->reader.page;
	struct share *share = worker->payer ?: worker->share;
	const bool is_at_file = last_mapping(&worker->reader);
	char name[300];

	keeper_file_name(worker, name, sizeof(name));
	if (page->question == READER_MAKE)
		keeper_complain(worker->keeper, share, "%s: takes too long to read", name);
	else if (!page->pid)
		keeper_complain(worker->keeper, share, "%s: cannot be found within %d s", name,
				READER_SECONDS);
	else if (!is_at_file)
		keeper_complain(worker->keeper, share,
				"process %d: its mappings cannot be read within %d s, left alone for %d s",
				page->pid, READER_SECONDS, KEEPER_SLOW_SECONDS);
	else
		keeper_complain(worker->keeper, share,
				"%s: does not answer within %d s, so the process is left alone for %d s",
				name, READER_SECONDS, KEEPER_SLOW_SECONDS);
}

/* @took: how long there was no answer. The CPU time of the reader is not known then. */
static void pay(struct worker *worker, __s64 took)
{
	const struct reader *reader = &worker->reader;
	__s64 used = reader->page->cpu_ns;

	if (!reader->pid)
		used = took < READER_SECONDS * NSEC_PER_SEC ? took : READER_SECONDS * NSEC_PER_SEC;
	share_take_time(worker->payer ?: worker->share, used);
}

enum outcome keeper_ask_more(struct worker *worker, enum reader_question question)
{
	struct keeper_stats *stats = &worker->keeper->files.stats;
	struct reader_page *page = worker->reader.page;
	enum outcome outcome;
	__s64 start;

	page->question = question;
	if (question == READER_MAKE)
		keeper_begin_parser(worker);
	start = now_ns();
	worker->progress = start;
	outcome = reader_ask(&worker->reader);
	worker->progress = now_ns();
	if (question == READER_MAKE)
		keeper_end_parser(worker);
	stats->build_ns += page->build_ns;
	stats->cpu_ns += page->cpu_ns;
	pay(worker, worker->progress - start);
	/* There was no answer, or a parser has had as much of a CPU as it may. */
	if (outcome == OUTCOME_SLOW) {
		worker->hangs++;
		complain_slow(worker);
	}
	if (worker->reader.hung >= 0)
		keeper_await_end(worker);
	return outcome;
}

enum outcome keeper_ask(struct worker *worker, enum reader_question question, pid_t pid,
			__u64 address)
{
	struct reader_page *page = worker->reader.page;
	struct keeper *keeper = worker->keeper;
	enum outcome outcome;

	/* First: if the PID is another process's by the time of the answer, this one has ended. */
	if (pid)
		worker->asked = process_of(pid);
	if (!keeper_may_ask(keeper, pid ? &worker->asked : NULL) ||
	    (pid && keeper_leaves_alone(keeper, &worker->asked))) {
		worker->reader.nr_mappings = 0;
		return OUTCOME_SLOW;
	}
	page->pid = pid;
	page->address = address;
	page->exclude.len = keeper->exclude.len;
	memcpy(page->exclude.all, keeper->exclude.all, keeper->exclude.len);
	outcome = keeper_ask_more(worker, question);
	/* Somebody has killed the reader, or it has crashed; then it will crash again. */
	if (outcome == OUTCOME_DIED)
		outcome = keeper_ask_more(worker, question);
	if (outcome == OUTCOME_SLOW && pid)
		keeper_leave_alone(keeper, &worker->asked);
	if (outcome == OUTCOME_MOVED) {
		keeper_set_share(keeper, &worker->asked, NULL);
		worker->moved = true;
	}
	return outcome;
}
