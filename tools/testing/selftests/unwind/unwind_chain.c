// SPDX-License-Identifier: GPL-2.0
/*
 * Functions in assembly whose frames are known to the byte.
 */
#include "unwind_chain.h"

asm(".pushsection .text\n"
	".globl chain_call\n"
	".type chain_call, @function\n"
	"chain_call:\n"
	"	push %rbp\n"
	"	push %rbx\n"
	"	mov %rdi, %rbx\n"
	"	xor %ebp, %ebp\n"
	"	call chain_outer\n"
	".globl chain_ip_base\n"
	"chain_ip_base:\n"
	"	pop %rbx\n"
	"	pop %rbp\n"
	"	ret\n"
	"chain_outer:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	call chain_middle\n"
	".globl chain_ip_outer\n"
	"chain_ip_outer:\n"
	"	pop %rbp\n"
	"	ret\n"
	"chain_middle:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	call chain_leaf\n"
	".globl chain_ip_middle\n"
	"chain_ip_middle:\n"
	"	pop %rbp\n"
	"	ret\n"
	"chain_leaf:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	mov 64(%rbx), %rdx\n"
	"	test %rdx, %rdx\n"
	"	jnz 1f\n"
	"	mov (%rbx), %rax\n"
	"	mov 8(%rbx), %rdi\n"
	"	mov 16(%rbx), %rsi\n"
	"	mov 24(%rbx), %rdx\n"
	"	mov 32(%rbx), %r10\n"
	"	mov 40(%rbx), %r8\n"
	"	mov 48(%rbx), %r9\n"
	"	syscall\n"
	".globl chain_ip_syscall\n"
	"chain_ip_syscall:\n"
	"	mov %rax, 56(%rbx)\n"
	"	pop %rbp\n"
	"	ret\n"
	".globl chain_spin_lo\n"
	"chain_spin_lo:\n"
	"1:	pause\n"
	"	cmpl $0, (%rdx)\n"
	"	je 1b\n"
	".globl chain_spin_hi\n"
	"chain_spin_hi:\n"
	"	pop %rbp\n"
	"	ret\n"
	".size chain_call, . - chain_call\n"
	".popsection\n");

long chain_syscall(long nr, long a0, long a1, long a2, long a3, long a4,
		   long a5)
{
	struct chain_call call = {
		.nr = nr, .args = { a0, a1, a2, a3, a4, a5 },
	};

	chain_call(&call);
	return call.ret;
}

/* One without arguments */
long chain0(long nr)
{
	return chain_syscall(nr, 0, 0, 0, 0, 0, 0);
}

void chain_spin(const int *flag)
{
	struct chain_call call = { .flag = flag };

	chain_call(&call);
}

const uint64_t chain_frames[CHAIN_NR] = {
	(unsigned long)chain_ip_syscall, (unsigned long)chain_ip_middle,
	(unsigned long)chain_ip_outer, (unsigned long)chain_ip_base,
};

bool chain_callers_ok(const uint64_t *ips, uint64_t nr)
{
	return nr == CHAIN_NR &&
	       !memcmp(ips + 1, chain_frames + 1, (CHAIN_NR - 1) * sizeof(*ips));
}

/* Is this exactly the stack of a chain_syscall()? */
bool chain_syscall_ok(const uint64_t *ips, uint64_t nr)
{
	return nr == CHAIN_NR && !memcmp(ips, chain_frames, sizeof(chain_frames));
}

/* Is this exactly the stack of a chain_spin()? */
bool chain_spin_ok(const uint64_t *ips, uint64_t nr)
{
	return chain_callers_ok(ips, nr) &&
	       ips[0] >= (unsigned long)chain_spin_lo &&
	       ips[0] < (unsigned long)chain_spin_hi;
}

/* A command to the test module from below the chain. Returns 0 or -errno. */
int chain_cmd(int fd, const char *fmt, ...)
{
	char line[256];
	va_list args;
	long ret;
	int len;

	va_start(args, fmt);
	len = vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	ret = chain_syscall(SYS_write, fd, (long)line, len, 0, 0, 0);
	return ret == len ? 0 : ret < 0 ? ret : -EIO;
}

asm(".pushsection .text\n"
	".globl framed_syscall\n"
	".type framed_syscall, @function\n"
	"framed_syscall:\n"
	"	push %rbp\n"
	"	push %rbx\n"
	"	mov %rsp, %rbx\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rdi\n"
	"	mov %rdx, %rsi\n"
	"	mov %rcx, %rdx\n"
	"	mov %r8, %rsp\n"
	"	mov %r9, %rbp\n"
	"	syscall\n"
	".globl framed_ip_syscall\n"
	"framed_ip_syscall:\n"
	"	mov %rbx, %rsp\n"
	"	pop %rbx\n"
	"	pop %rbp\n"
	"	ret\n"
	".size framed_syscall, . - framed_syscall\n"
	".popsection\n");
