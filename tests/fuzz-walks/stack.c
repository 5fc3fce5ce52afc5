// SPDX-License-Identifier: GPL-2.0
/*
 * Stacks that are made up frame by frame, from the one where a walk begins to the
 * outermost one, by the rules of the code that each is said to be in.
 */
#include <sys/auxv.h>

#include "fuzz.h"

#define CS_64	0x33
#define CS_32	0x23
#define SS	0x2b

/* Signal frames that a walk passes: less than the most */
#define MAX_SIGNALS	12

/* Addresses of no code, some of which are selectors; nothing is mapped at the last one. */
static const u64 no_code[] = {
	0, 1, -1, CS_64, CS_32, SS, 7, 15, 23, 31, 1ULL << 63, 1ULL << 47, (1ULL << 47) - PAGE,
	-640, -512, 0xffffffffff600400, 0xffffffff81000000, 0xffff888000000000, 0x0f000000,
};

/* The kernel knows the first four restorers, and the C library has one for a signal above 31. */
const int frame_signals[NR_FRAMES] = { 10, 12, 16, 23 };

/* Code that is executed, by action; where a walk begins then, and how far that may be off */
static const struct stub {
	const char *bytes;
	u8 len, ip, span;
} stubs[] = {
	[SYSCALL] = { "\x0f\x05", 2, 2, 0 },
	[INT80] = { "\xcd\x80", 2, 2, 0 },
	/* mov %ebx,%eax; syscall; dec %r12d; jnz */
	[BURST] = { "\x89\xd8\x0f\x05\x41\xff\xcc\x75\xf7", 9, 4, 5 },
	/* dec %ecx; jnz */
	[SPIN] = { "\xff\xc9\x75\xfc", 4, 0, 4 },
	/* mov (%rcx),%al */
	[LOAD] = { "\x8a\x01", 2, 0, 0 },
	/* As BURST; mov %ebx,%eax; int $0x80; dec %esi; jnz */
	[LOAD + 1] = { "\x89\xd8\xcd\x80\x4e\x75\xf9", 7, 4, 3 },
};

#define BURST_32	(LOAD + 1)

/*
 * Each goes back to enter(), by a register or, in 32-bit code, by a far jump; and there is
 * code that plain_rule() knows.
 */
void code_put(u8 *mem, bool plain)
{
	u32 i;
	u8 *to;

	memset(mem, 0x90, REGION_SIZE);
	for (i = 0; i < ARRAY_SIZE(stubs); i++) {
		to = code_bytes(mem + SLOT * (1 + i), stubs[i].bytes, stubs[i].len);
		code_bytes(to, "\x41\xff\xe7", 3);
		to = code_bytes(mem + SLOT * (8 + i), stubs[i].bytes, stubs[i].len);
		to = sframe_build_put(to, 0xea, 1);
		to = sframe_build_put(to, (unsigned long)enter_back, 4);
		sframe_build_put(to, CS_64, 2);
	}
	for (i = STUBS; plain && i < SLOTS; i += 8)
		mem[i * SLOT + 8] = 0xc3;
}

/* A stack that is being made, and its last frame. Other members are addresses. */
struct build {
	struct made *s;
	/* Where the used part of each of the two stacks ends, and the stack; which is used */
	u64 top[2], end[2];
	u32 on;
	/* Bytes of a word: 8, or 4 in 32-bit code; and bases of its segments */
	u32 word;
	u64 ip_base, sp_base;
	u64 ip, sp;
	/* Where its caller's IP belongs, if anywhere; its FP, which is open until it is needed */
	u64 ra;
	void *fp;
	/* 0 if a walk does not know it */
	u32 fp_len;
	/* IP is not a return address. */
	bool exact;
	struct unwind_table_rule rule;
	u32 signals;
};

static void put(u64 at, u64 val, u32 len)
{
	memcpy((void *)at, &val, len);
}

static void put_fp(struct build *b, u64 val)
{
	memcpy(b->fp, &val, b->fp_len);
}

/* Another frame, whose IP may belong somewhere */
static void add(struct build *b, u64 ip)
{
	b->ip = ip;
	if (b->ra)
		put(b->ra, ip - b->ip_base, b->word);
	if (b->s->nr < ARRAY_SIZE(b->s->ips))
		b->s->ips[b->s->nr++] = ip;
}

/* Without a table: by the frame pointer, but for code that is at its ret */
static struct unwind_table_rule plain_rule(const struct build *b, const struct region *r)
{
	u32 off = b->ip - r->addr;

	if (r->kind <= PLAIN_FILE && off / SLOT >= STUBS && off % (8 * SLOT) == 8 &&
	    (b->exact || (r->kind == PLAIN && b->word == 8)))
		return rule_cfa(RSP, b->word);
	return rule_saved(RBP, 2 * b->word, -2 * (s32)b->word);
}

/* It is in the code of a region. */
static void add_code(struct build *b, const struct region *r, u64 ip)
{
	u32 slot = (ip - r->addr - !b->exact) / SLOT % RULES;

	add(b, ip);
	b->s->wild |= r->changes;
	if (b->word == 8 && r->kind == TABLE)
		b->rule = table_rules[slot];
	else if (b->word == 8 && r->kind == SFRAME)
		b->rule = sframe_rules[slot];
	else
		b->rule = plain_rule(b, r);
}

static const struct region *any_region(void)
{
	const struct region *r = &regions[rnd(nr_regions)];

	return r->changes && rnd(4) ? &regions[0] : r;
}

static void add_any(struct build *b)
{
	const struct region *r = any_region();
	u32 off = one_in(4) ? 8 : 1 + rnd(SLOT - 1);

	add_code(b, r, r->addr + SLOT * (STUBS + rnd(SLOTS - STUBS)) + off);
}

/* Is there no more room for a few frames? */
static bool is_full(const struct build *b, u32 on)
{
	return b->top[on] + 2048 > b->end[on];
}

/* Complete the last frame by its rule. Returns false if a walk finds no caller. */
static bool make_frame(struct build *b)
{
	const struct unwind_table_rule *rule = &b->rule;
	bool saved = rule->fp.where == UNWIND_TABLE_CFA_DEREF;
	u64 cfa, depth = saved ? (u32)-rule->fp.off : b->word;

	if (rule->kind != UNWIND_TABLE_CALLER) {
		b->s->complete = rule->kind == UNWIND_TABLE_OUTERMOST;
		return false;
	}
	if (rule->cfa.where == UNWIND_TABLE_REG_DEREF) {
		cfa = b->sp + rule->cfa.off + 8 + depth + 8 * rnd(4);
		put(b->sp + rule->cfa.off, cfa - rule->cfa_add, 8);
	} else if (rule->cfa.reg == RSP) {
		cfa = b->sp + rule->cfa.off;
	} else if (b->fp_len) {
		cfa = b->sp + depth + b->word * rnd(6);
		put_fp(b, cfa - rule->cfa.off - b->sp_base);
	} else {
		return false;
	}
	if (saved) {
		b->fp = (void *)(cfa + rule->fp.off);
		b->fp_len = b->word;
	} else if (rule->fp.where == UNWIND_TABLE_NONE) {
		b->fp_len = 0;
	}
	b->ra = cfa - b->word;
	b->sp = cfa;
	b->top[b->on] = cfa;
	b->exact = false;
	return true;
}

/* 64-bit code, 32-bit code, or 32-bit code in a segment with a base, from here on */
static bool set_mode(struct build *b, u32 mode, u64 *cs, u64 *ss)
{
	u32 n = 2 * rnd(2);

	if (without("32"))
		mode = 0;
	b->word = mode ? 4 : 8;
	b->ip_base = mode == 2 ? ldt_base[n] : 0;
	*cs = mode == 2 ? 8 * n + 7 : mode ? CS_32 : CS_64;
	n = 1 + 2 * rnd(2);
	mode &= 2 * rnd(2);
	b->sp_base = mode == 2 ? ldt_base[n] : 0;
	*ss = mode == 2 ? 8 * n + 7 : SS;
	return b->word == 4;
}

/* The caller of the last frame is a signal frame. The interrupted code may be anything. */
static void add_signal(struct build *b)
{
	static const u8 contexts[] = { 48, 32, 8, 164 };
	static const struct offsets {
		u8 bp, sp, ip, cs, ss;
	} offsets_64 = { 80, 120, 128, 144, 150 }, offsets_32 = { 24, 28, 56, 60, 72 };
	const struct offsets *f = b->word == 8 ? &offsets_64 : &offsets_32;
	u32 len = b->word, kind = (len == 8 ? FRAME_64 : FRAME_32) + rnd(2);
	u64 cs, ss, at = b->ra + contexts[kind];

	add(b, (unsigned long)frame_restorers[kind]);
	b->top[b->on] = b->ra + 288;
	b->ra = 0;
	if (one_in(3) && !is_full(b, !b->on))
		b->on = !b->on;
	b->fp = (void *)(at + f->bp);
	b->fp_len = len;
	put_fp(b, 0);
	set_mode(b, rnd(3), &cs, &ss);
	b->sp = (b->top[b->on] + 7 + 8 * rnd(4)) & -8;
	b->exact = true;
	b->signals++;
	add_any(b);
	put(at + f->sp, b->sp - b->sp_base, len);
	put(at + f->ip, b->ip - b->ip_base, len);
	put(at + f->cs, cs, 2);
	put(at + f->ss, ss, 2);
}

/* The caller of the last frame has no caller. */
static void add_end(struct build *b)
{
	const struct region *r = any_region();
	u64 fp = (one_in(3) ? b->sp - 1 - rnd(64) : b->end[1] + rnd(64)) - b->sp_base;
	u32 how = rnd(4), i = STUBS + rnd(RULES - STUBS);

	if (how == 0 && b->word == 8) {
		/* No address, or one that is not of code */
		put(b->ra, one_in(4) ? b->sp : no_code[rnd(ARRAY_SIZE(no_code))], 8);
	} else if (how == 1) {
		put(b->ra, 0, b->word);
	} else if (how == 2 && b->word == 8 && r->kind == TABLE &&
		   table_rules[i].kind != UNWIND_TABLE_CALLER) {
		add_code(b, r, r->addr + SLOT * (RULES * (1 + rnd(20)) + i) + 1 + rnd(15));
		make_frame(b);
	} else if (one_in(2)) {
		/* Where the program begins */
		add(b, getauxval(AT_ENTRY) + 1 + rnd(60));
		put_fp(b, 0);
		b->s->complete = b->fp_len;
	} else {
		/* A frame pointer that is none. Of region 0, nothing is a table. */
		add_code(b, &regions[0], regions[0].addr + SLOT * (STUBS + 1 + 8 * rnd(100)) + 1);
		put_fp(b, one_in(4) ? 0 : fp);
	}
}

/* Begin where some code does something. */
static void begin(struct build *b)
{
	u32 frame = rnd(without("32") ? FRAME_32 : NR_FRAMES), at;
	struct made *s = b->s;
	const struct region *r;
	const struct stub *stub;
	bool is_32;

	do {
		r = any_region();
	} while (r->changes);
	s->how = world.full ? rnd(BURST + 1) : one_in(3) ? rnd(URETPROBE + 1) : SYSCALL;
	/* The kernel finds the stack of a signal by SP. */
	at = s->how == URETPROBE ? 0 : rnd(s->how == SIGNAL ? 2 : 3);
	is_32 = set_mode(b, at, &s->cs, &s->ss);
	at = s->how > LOAD ? SYSCALL : s->how;
	if (is_32 && (at == SYSCALL || at == BURST))
		at = at == BURST ? BURST_32 : INT80;
	stub = &stubs[at];
	s->ip = r->addr + SLOT * (at + (is_32 ? 8 : 1));
	s->span = stub->span;
	s->calls = s->how != SPIN && s->how != LOAD;
	if (s->how == BURST)
		s->calls = world.full ? 2000 : 2 + rnd(30);
	s->r12 = s->calls;
	s->si = s->calls;
	s->ax = is_32 || s->how == INT80 ? 64 : one_in(4) ? 0x4000006e : SYS_getppid;
	s->bx = s->ax;
	s->cx = s->how == LOAD ? b->end[1] + AREA_ABSENT - AREA_GUARD : 1 + rnd(50000);
	b->exact = true;

	if (s->how == SIGNAL) {
		s->ax = is_32 ? 270 : SYS_tgkill;
		s->di = getpid();
		s->bx = s->di;
		s->si = my_tid();
		s->cx = s->si;
		s->dx = frame_signals[frame];
		add(b, (unsigned long)(frame < FRAME_32 ? handler_ip : handler_32_ip));
		add(b, (unsigned long)frame_restorers[frame]);
		s->handler = 2;
	}
	if (s->how == URETPROBE) {
		s->ip = (unsigned long)probed;
		add(b, (unsigned long)probed_ip);
		b->rule = rule_cfa(RSP, 8);
	} else {
		add_code(b, r, s->ip + stub->ip);
	}
	s->ip -= b->ip_base;
	s->sp = b->sp - b->sp_base;
	s->flags = 0x202;
}

/* Make up a stack in an area. */
void stack_put(struct made *s, u32 area)
{
	struct build b = { .s = s, .on = rnd(2), .fp = &s->bp, .fp_len = 8 };
	u32 target = one_in(40) ? 100 + rnd(60) : 2 + rnd(24), i;

	memset(s, 0, sizeof(*s));
	for (i = 0; i < 2; i++) {
		b.top[i] = AREA(area) + AREA_STACK(i) + 8 * rnd(512);
		b.end[i] = AREA(area) + AREA_STACK(i + 1);
	}
	/* There is room below one of them only. */
	b.top[1] += 4 * PAGE;
	b.sp = b.top[b.on];
	begin(&b);

	while (make_frame(&b)) {
		if (s->how == URETPROBE && s->nr == 1) {
			/* It does return. */
			add(&b, (unsigned long)enter_back);
			b.rule = rule_saved(RBP, 16, -16);
		} else if (s->nr >= target || is_full(&b, b.on)) {
			add_end(&b);
			break;
		} else if (b.signals < MAX_SIGNALS && one_in(5)) {
			add_signal(&b);
		} else {
			add_any(&b);
		}
	}
}

/* Write words into a stack that change or break it. */
void stack_spoil(struct made *s, u32 area)
{
	u32 i;

	s->wild = true;
	for (i = 1 + rnd(6); i; i--) {
		u64 at = AREA(area) + AREA_STACK(rnd(2)) + rnd(6 * PAGE);
		u64 word = no_code[rnd(ARRAY_SIZE(no_code))];

		if (one_in(8))
			word = (u64)frame_restorers[rnd(NR_FRAMES)];
		else if (one_in(2))
			word = one_in(3) ? any_region()->addr + rnd(REGION_SIZE) :
					   AREA(area) + rnd(AREA_ABSENT);
		/* The probed function uses its own return address. */
		if (s->how != URETPROBE || at > s->sp + 16 || at + 16 < s->sp)
			put(at & -(1 << rnd(4)), word, 8 >> rnd(3));
	}
	if (one_in(8) && s->how == SYSCALL)
		s->bp = no_code[rnd(ARRAY_SIZE(no_code))];
	if (one_in(16) && s->how == SYSCALL && s->ss == SS)
		s->sp = no_code[rnd(ARRAY_SIZE(no_code))];
}
