// SPDX-License-Identifier: GPL-2.0
/*
 * worst SECONDS - look for the CFI that takes the most work for its size, by changing the worst
 * one so far. Twice as much of it must take no more than 2.2 times the work. Prints TAP.
 */

#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "elf_build.h"
#include "unwind-table.h"

#define MAX_ITEMS	12
#define MAX_COUNT	300
#define PAGE		4096

/* Pieces of the instructions of an FDE */
enum item_kind {
	ADVANCE,
	OFFSET,			/* CFA = rsp + n */
	CFA_EXPRESSION,		/* of so many operations */
	CFA_BY_IP,		/* the same, of which the result depends on the IP */
	FP_EXPRESSION,
	FP_BY_IP,
	FP_PLACE,
	REMEMBER,
	RESTORE,
	NEW_FDE,
	NEW_CIE,
	GAP,			/* a new FDE, not where the last one ends */
	NR_KINDS
};

struct item {
	enum item_kind	kind;
	unsigned int	count;
};

/* Items that are there once, then items that are repeated */
struct input {
	struct item	items[MAX_ITEMS];
	unsigned int	nr;
	unsigned int	nr_once;
	unsigned int	repeat;
	uint8_t		code[16];	/* so begins the code of gaps */
};

static uint32_t random_state = 1;

static unsigned int any(unsigned int limit)
{
	random_state = random_state * 1664525 + 1013904223;
	return (random_state >> 8) % limit;
}

static void put_uleb(struct cfi *cfi, unsigned int n)
{
	for (; n >= 0x80; n >>= 7)
		cfi_u8(cfi, n | 0x80);
	cfi_u8(cfi, n);
}

static void put_expression(struct cfi *cfi, unsigned int len, bool by_ip)
{
	static const uint8_t last[] = { 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x22 };
	size_t last_len = by_ip ? sizeof(last) : 2;

	put_uleb(cfi, len + last_len);
	while (len--)
		cfi_u8(cfi, 0x96);
	cfi_put(cfi, last, last_len);
}

struct building {
	struct cfi	cfi;
	uint64_t	start;		/* of the FDE that is being made */
	uint64_t	end;		/* of its code, so far */
	size_t		len_at;		/* where its length belongs */
	size_t		cie;
};

static void end_fde(struct building *b)
{
	uint64_t len = b->end + 16 - b->start;

	memcpy(b->cfi.data + b->len_at, &len, sizeof(len));
	cfi_end(&b->cfi);
	b->end += 16;
}

static void begin_fde(struct building *b)
{
	uint32_t distance;

	b->start = b->end;
	cfi_fde(&b->cfi, b->start, 0);
	b->len_at = b->cfi.len - 8;
	distance = b->cfi.record + 4 - b->cie;
	memcpy(b->cfi.data + b->cfi.record + 4, &distance, sizeof(distance));
}

static void put_item(struct building *b, const struct item *item, unsigned int scale)
{
	struct cfi *cfi = &b->cfi;
	unsigned int count = item->count * scale;

	switch (item->kind) {
	case ADVANCE:
		cfi_u8(cfi, 0x41);
		b->end++;
		break;
	case OFFSET:
		cfi_put(cfi, "\x0c\x07", 2);
		put_uleb(cfi, 8 + item->count % 64 * 8);
		break;
	case CFA_EXPRESSION:
	case CFA_BY_IP:
		cfi_u8(cfi, 0x0f);
		put_expression(cfi, count, item->kind == CFA_BY_IP);
		break;
	case FP_EXPRESSION:
	case FP_BY_IP:
		cfi_put(cfi, "\x10\x06", 2);
		put_expression(cfi, count, item->kind == FP_BY_IP);
		break;
	case FP_PLACE:
		cfi_u8(cfi, 0x86);
		put_uleb(cfi, 2 + item->count % 32);
		break;
	case REMEMBER:
		cfi_u8(cfi, 0x0a);
		break;
	case RESTORE:
		cfi_u8(cfi, 0x0b);
		break;
	case NEW_CIE:
		end_fde(b);
		b->cie = cfi->len;
		cfi_cie(cfi);
		begin_fde(b);
		break;
	case GAP:
		end_fde(b);
		b->end += 16 + count;
		begin_fde(b);
		break;
	default:
		end_fde(b);
		begin_fde(b);
	}
}

/* Operations for each byte of CFI and code, and how many in all; @scale: as much of it */
static double work_of(const struct input *input, unsigned int scale, uint64_t *work)
{
	struct building b = { .start = BUILD_CODE, .end = BUILD_CODE };
	struct unwind_table *table = NULL;
	struct build build;
	uint64_t size, at;
	unsigned int i, k;
	uint8_t *image;
	size_t len;
	int rc;

	cfi_cie(&b.cfi);
	begin_fde(&b);
	for (i = 0; i < input->nr_once; i++)
		put_item(&b, &input->items[i], scale);
	for (k = 0; k < input->repeat * scale; k++)
		for (i = input->nr_once; i < input->nr; i++)
			put_item(&b, &input->items[i], 1);
	end_fde(&b);
	build = (struct build){ b.end - BUILD_CODE, 1, b.cfi.data, b.cfi.len };
	image = build_elf(&build, &len);
	for (at = 0; at + 16 <= build.code_len; at += 16)
		memcpy(image + BUILD_CODE + at, input->code, 16);
	size = b.cfi.len + build.code_len + PAGE;
	rc = unwind_table_from_image(image, len, &table);
	if (rc && rc != -E2BIG && rc != -ENODATA)
		errx(1, "%s", strerror(-rc));
	/* A refused file has used all the allowed work. */
	*work = rc ? rc == -E2BIG ? UNWIND_TABLE_WORK * size : 0 : unwind_table_stats(table)->work;
	unwind_table_free(table);
	free(image);
	free(b.cfi.data);
	return (double)*work / size;
}

static void change(struct input *input)
{
	static const uint8_t starts[][4] = {
		{ 0x48, 0x83, 0xec, 0x08 }, { 0x55, 0x48, 0x89, 0xe5 }, { 0xe8, 0xe8, 0xe8, 0xe8 },
		{ 0xff, 0x35, 0, 0 }, { 0xf3, 0x0f, 0x1e, 0xfa }, { 0xcc, 0xcc, 0xcc, 0xcc },
	};
	struct item *item = &input->items[any(input->nr)];

	switch (any(6)) {
	case 0:
		item->kind = any(NR_KINDS);
		break;
	case 1:
		item->count = any(MAX_COUNT);
		break;
	case 2:
		input->nr_once = any(input->nr);
		break;
	case 3:
		input->repeat = 1 + any(MAX_COUNT);
		break;
	case 4:
		if (input->nr == MAX_ITEMS)
			break;
		input->items[input->nr++] = (struct item){ any(NR_KINDS), any(MAX_COUNT) };
		break;
	default:
		memcpy(input->code + any(13), starts[any(6)], 4);
	}
}

int main(int argc, char **argv)
{
	struct input worst = { .nr = 1, .repeat = 1 }, input;
	double most = 0, now;
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 3);
	unsigned int nr = 0, i;
	uint64_t work, work2;
	bool is_bounded, is_linear;

	while (time(NULL) < end) {
		input = worst;
		for (i = any(4); i < 4; i++)
			change(&input);
		now = work_of(&input, 1, &work);
		nr++;
		if (now > most) {
			most = now;
			worst = input;
		}
	}
	work_of(&worst, 1, &work);
	work_of(&worst, 2, &work2);
	printf("# %u inputs, at most %.2f operations a byte; %.2f times as many for twice as much\n",
	       nr, most, work ? (double)work2 / work : 0);
	is_bounded = most <= UNWIND_TABLE_WORK && nr >= 100;
	is_linear = work2 * 10 <= work * 22;
	printf("%sok 1 the most work that was found is no more than allowed\n",
	       is_bounded ? "" : "not ");
	printf("%sok 2 twice the size takes no more than 2.2 times that\n",
	       is_linear ? "" : "not ");
	printf("1..2\n");
	return !is_bounded || !is_linear;
}
