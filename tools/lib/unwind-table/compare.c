// SPDX-License-Identifier: GPL-2.0
/* Compares rules by instructions with those by CFI, which are right. */

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "follow.h"

struct compare {
	struct ut_build			build;
	const struct ut_elf		*elf;		/* of @build */
	struct ut_fdes			fdes;
	struct ut_view			view;
	struct insn_decoder		*decoder;
	struct unwind_table_comparison	*result;
	void				(*differs)(void *data, uint64_t start, uint64_t end);
	void				*data;
	__u64				*described;	/* bits, of bytes that FDEs have */
	__u64				*starts;	/* of their first bytes */
	__u64				*seen;		/* of bytes that were reached */
	__u64				*pads;		/* of code reached only by unwinding */
	__u64				lsda_left;	/* bytes of exception tables to be read */
	__u64				start;		/* of the place that differs */
	__u64				end;
};

static void set_bits(__u64 *bits, __u64 start, __u64 end)
{
	for (; start < end; start++)
		set_bit(bits, start);
}

/* The rule that CFI has for an offset in the file */
static bool find_rule(const struct compare *c, __u64 offset, struct unwind_table_rule *rule)
{
	__u32 nr_page_blocks = UT_PAGE_BLOCKS(c->view.header.block_shift), i;

	for (i = 0; i < c->view.header.nr_runs; i++) {
		struct unwind_table_run run = ut_view_run(&c->view, i);
		__u64 page = (offset >> UNWIND_TABLE_PAGE_SHIFT) - run.page;
		__u32 row, first;

		if (page >= run.nr_pages)
			continue;
		page += run.first_block / nr_page_blocks;
		first = ut_view_page(&c->view, page);
		row = ut_view_page(&c->view, page + 1) - 1;
		while (row > first && ut_view_row(&c->view, row).offset > (offset & UT_PAGE_MASK))
			row--;
		*rule = ut_view_rule(&c->view, ut_view_row(&c->view, row).rule);
		return rule->kind == UNWIND_TABLE_CALLER;
	}
	return false;
}

static void end_place(struct compare *c)
{
	if (c->start == c->end)
		return;
	c->result->places++;
	if (c->differs)
		c->differs(c->data, c->start, c->end);
	c->start = c->end;
}

static int look(void *data, __u64 addr, unsigned int len, const struct state *state)
{
	struct compare *c = data;
	const struct ut_segment *segment = ut_elf_code_at(c->elf, addr);
	__u64 offset = ut_offset_of(segment, addr);
	struct unwind_table_rule rule;

	if (!bit(c->described, offset) || !find_rule(c, offset, &rule))
		return 0;
	set_bits(c->seen, offset, offset + len);
	switch (ut_state_agrees(state, &rule)) {
	case STATE_SAME:
		c->result->same += len;
		break;
	case STATE_LESS:
		c->result->less += len;
		break;
	case STATE_DIFFERENT:
		c->result->differs += len;
		if (addr != c->end) {
			end_place(c);
			c->start = addr;
		}
		c->end = addr + len;
		break;
	default:
		c->result->other += len;
	}
	return 0;
}

/* Does a function start where an FDE does? Other FDEs are of parts of functions. */
static bool is_function(const struct compare *c, const struct ut_fde *fde)
{
	struct unwind_table_rule rule;
	__u8 first;

	/* A nop precedes code that only the unwinder leads to. */
	return find_rule(c, fde->start, &rule) && rule.cfa.where == UNWIND_TABLE_REG &&
	       rule.cfa.reg == UT_REG_SP && rule.cfa.off == 8 &&
	       rule.fp.where == UNWIND_TABLE_SAME &&
	       ut_elf_read_code(c->elf, &c->elf->code[fde->segment], fde->start, &first, 1) &&
	       first != 0x90;
}

static int follow_fdes(struct compare *c, bool declare)
{
	struct ut_follow *follow = c->build.follow;
	size_t i;
	int err = 0;

	for (i = 0; i < c->fdes.nr_fdes && !err; i++) {
		const struct ut_fde *fde = &c->fdes.fdes[i];
		__u64 addr = ut_addr_of(&c->elf->code[fde->segment], fde->start);

		if (is_function(c, fde))
			err = declare ? ut_follow_declare(follow, addr) :
					ut_follow_from(follow, addr, UT_FOLLOW_CERTAIN);
	}
	return err;
}

static int follow_all_fdes(struct ut_build *build, void *data)
{
	int err = follow_fdes(data, true);

	(void)build;
	return err ? err : follow_fdes(data, false);
}

static int follow_given(struct compare *c)
{
	int err = ut_starts_find(&c->build);

	if (!err)
		err = ut_follow_new(&c->build, 0, ~0ULL, &c->build.follow);
	return err ? err : ut_follow_passes(&c->build, follow_all_fdes, c);
}

static int follow_found(struct compare *c)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < c->elf->nr_code && !err; i++)
		err = ut_follow_found(&c->build, &c->elf->code[i], c->elf->code[i].offset,
				      c->elf->code[i].offset + c->elf->code[i].len);
	return err;
}

/* Begin to read an exception table: where its list of calls is, and how long that is */
static bool read_lsda(const struct compare *c, __u64 *addr, __u64 *len, __u8 *encoding)
{
	struct ut_cursor at;
	__u8 head[32], types;
	size_t size = sizeof(head);

	/* At the end of a segment it may be shorter. */
	while (size && !ut_elf_read_addr(c->elf, *addr, head, size))
		size /= 2;
	at = (struct ut_cursor){ .pos = head, .end = head + size };
	/* Another base than the function's start is not in use. */
	if (ut_get(&at, 1) != UT_PE_OMIT)
		return false;
	types = ut_get(&at, 1);
	if (types != UT_PE_OMIT)
		ut_get_uleb(&at);
	*encoding = ut_get(&at, 1);
	*len = ut_get_uleb(&at);
	*addr += at.pos - head;
	return !at.bad;
}

static int push(struct array *todo, __u64 addr)
{
	int err = array_grow(todo);

	if (!err)
		((__u64 *)todo->items)[todo->nr++] = addr;
	return err;
}

/* The code that only a landing pad leads to; behind a call, up to the end of the FDE */
static int follow_pad(struct compare *c, __u64 addr)
{
	struct array todo = { .size = sizeof(addr) };
	const struct ut_segment *segment;
	struct insn insn;
	__u8 code[16];
	__u64 at;
	int err = push(&todo, addr);

	while (todo.nr && !err) {
		addr = ((__u64 *)todo.items)[--todo.nr];
		segment = ut_elf_code_at(c->elf, addr);
		if (!segment)
			continue;
		at = ut_offset_of(segment, addr);
		if (bit(c->seen, at) || bit(c->pads, at) || !bit(c->described, at) ||
		    !ut_insn_decode(c->decoder, code, ut_elf_read_code(c->elf, segment, at, code,
								    sizeof(code)), addr, &insn))
			continue;
		set_bits(c->pads, at, at + insn.len);
		if (insn.op == INSN_JUMP || insn.op == INSN_BRANCH)
			err = push(&todo, insn.imm);
		if (!err && (insn.op < INSN_JUMP || insn.op == INSN_BRANCH) &&
		    !bit(c->starts, at + insn.len))
			err = push(&todo, addr + insn.len);
	}
	array_free(&todo);
	return err;
}

/*
 * Where the unwinder leads to: the landing pads of a function. The tables are described in
 * "Exception Handling Tables" of the Itanium C++ ABI.
 */
static int follow_pads(struct compare *c, const struct ut_fde *fde)
{
	const struct ut_segment *segment = &c->elf->code[fde->segment];
	__u64 addr = ut_cfi_lsda(&c->fdes.cies[fde->cie], fde), len, pad;
	struct ut_cursor calls;
	__u8 encoding, *data;
	int err = 0;

	if (!addr || !read_lsda(c, &addr, &len, &encoding) || len > c->lsda_left)
		return 0;
	c->lsda_left -= len;
	data = malloc(len ?: 1);
	if (!data)
		return -ENOMEM;
	calls = (struct ut_cursor){ .pos = data, .end = data + len };
	calls.bad = !ut_elf_read_addr(c->elf, addr, data, len);
	while (ut_more(&calls) && !err) {
		ut_get_encoded(&calls, encoding);
		ut_get_encoded(&calls, encoding);
		pad = ut_get_encoded(&calls, encoding);
		ut_get_uleb(&calls);
		if (pad && pad < fde->end - fde->start)
			err = follow_pad(c, ut_addr_of(segment, fde->start) + pad);
	}
	free(data);
	return err;
}

static bool is_padding(const struct insn *insn, const __u8 *code)
{
	if (insn->op == INSN_STOP)
		return true;
	return insn->op == INSN_OTHER && !insn->kills && !insn->size &&
	       (code[0] == 0x90 || code[0] == 0x66 || code[0] == 0x2e ||
		(code[0] == 0x0f && code[1] == 0x1f));
}

/* Count the code of an FDE, and the part to which only the unwinder leads. */
static int count_code(struct compare *c, const struct ut_fde *fde)
{
	const struct ut_segment *segment = &c->elf->code[fde->segment];
	__u64 len = fde->end - fde->start, at = 0;
	struct unwind_table_rule rule;
	__u8 *code = malloc(len);

	if (!code)
		return -ENOMEM;
	len = ut_elf_read_code(c->elf, segment, fde->start, code, len);
	while (at < len) {
		struct insn insn = { .len = 1, .op = INSN_STOP };
		bool seen = bit(c->seen, fde->start + at);

		ut_insn_decode(c->decoder, code + at, len - at, 0, &insn);
		if (find_rule(c, fde->start + at, &rule) &&
		    (seen || !is_padding(&insn, code + at))) {
			c->result->code += insn.len;
			if (bit(c->pads, fde->start + at))
				c->result->pads += insn.len;
		}
		at += insn.len;
	}
	free(code);
	return 0;
}

static int compare(struct compare *c, bool given)
{
	size_t i;
	int err;

	c->decoder = ut_insn_decoder_new();
	if (!c->decoder)
		return -EOPNOTSUPP;
	c->build.follow_work.limit = ~0ULL;
	c->build.no_cfi = true;
	c->seen = calloc(c->elf->src.len / 64 + 1, sizeof(*c->seen));
	c->described = calloc(c->elf->src.len / 64 + 1, sizeof(*c->described));
	c->pads = calloc(c->elf->src.len / 64 + 1, sizeof(*c->pads));
	c->starts = calloc(c->elf->src.len / 64 + 1, sizeof(*c->starts));
	if (!c->seen || !c->described || !c->pads || !c->starts)
		return -ENOMEM;
	for (i = 0; i < c->fdes.nr_fdes; i++) {
		set_bits(c->described, c->fdes.fdes[i].start, c->fdes.fdes[i].end);
		set_bits(c->starts, c->fdes.fdes[i].start, c->fdes.fdes[i].start + 1);
	}
	err = given ? follow_given(c) : follow_found(c);
	for (i = 0; i < c->elf->nr_code && c->build.follow && !err; i++)
		err = ut_follow_look(c->build.follow, c->elf->code[i].addr,
				     c->elf->code[i].addr + c->elf->code[i].len, look, c);
	end_place(c);
	for (i = 0; i < c->fdes.nr_fdes && !err; i++)
		err = follow_pads(c, &c->fdes.fdes[i]);
	for (i = 0; i < c->fdes.nr_fdes && !err; i++)
		err = count_code(c, &c->fdes.fdes[i]);
	return err;
}

bool unwind_table_follows(void)
{
	struct insn_decoder *decoder = ut_insn_decoder_new();
	bool ret = decoder;

	ut_insn_decoder_free(decoder);
	return ret;
}

int unwind_table_compare(int fd, bool given, struct unwind_table_comparison *comparison,
			 void (*differs)(void *data, uint64_t start, uint64_t end), void *data)
{
	struct compare *c = calloc(1, sizeof(*c));
	struct ut_source src = { .fd = fd };
	struct unwind_table_stats stats = { 0 };
	struct unwind_table *table;
	struct stat stat;
	const void *block;
	size_t len;
	int err;

	memset(comparison, 0, sizeof(*comparison));
	if (!c)
		return -ENOMEM;
	c->elf = &c->build.elf;
	c->result = comparison;
	c->differs = differs;
	c->data = data;
	err = unwind_table_from_fd(fd, &table);
	if (err)
		goto out;
	block = unwind_table_data(table, &len);
	ut_view_open(&c->view, block);
	err = fstat(fd, &stat) ? -errno : 0;
	src.len = stat.st_size;
	c->lsda_left = UNWIND_TABLE_WORK * src.len;
	if (!err)
		err = ut_build_open(&c->build, &src, &stats);
	if (!err) {
		c->build.work.limit = ~0ULL;
		err = ut_cfi_read(&c->build, &c->elf->eh_frame, &c->fdes);
		if (!err)
			err = compare(c, given);
		ut_build_close(&c->build);
	}
	unwind_table_free(table);
out:
	ut_insn_decoder_free(c->decoder);
	free(c->fdes.fdes);
	free(c->fdes.cies);
	free(c->seen);
	free(c->described);
	free(c->pads);
	free(c->starts);
	free(c);
	return err;
}
