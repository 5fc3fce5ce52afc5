/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The places at which the tests of the walker have their stacks walked. Everything
 * here is a label with a known address; built for x86-64, x32 and i386.
 *
 * probe_at() leaves the C stack: it takes stack pointer, frame pointer and a
 * system call from a struct probe and jumps to a stub. A stub makes the system
 * call with the instruction under test right after it, so that the topmost IP
 * of the walk is exactly that instruction, whatever the stack looks like.
 */
#include "walker_stubs.h"

#ifdef __x86_64__
#define AX	%rax
#define BX	%rbx
#define CX	%rcx
#define SP	%rsp
#define BP	%rbp
/* Points to the struct probe; kept by the kernel across system calls */
#define P	%r15
#define SYSCALL	syscall
#define ENDBR	endbr64
#else
#define AX	%eax
#define BX	%ebx
#define CX	%ecx
#define SP	%esp
#define BP	%ebp
#define P	%edi
#define SYSCALL	int $0x80
#define ENDBR	endbr32
#endif

.macro LABEL name
	.globl \name
\name:
.endm

/* The beginning of a stub: a system call, which is followed by the code under test */
.macro STUB name
LABEL \name
	SYSCALL
LABEL \name\()_ip
.endm

	.text

/* void probe_at(struct probe *p) */
LABEL probe_at
#ifdef __x86_64__
	push	%rbp
	push	%rbx
	push	%r12
	push	%r13
	push	%r14
	push	%r15
#ifdef __ILP32__
	mov	%edi, %r15d
#else
	mov	%rdi, %r15
#endif
#else
	push	%ebp
	push	%ebx
	push	%esi
	push	%edi
	mov	20(%esp), %edi
#endif
	mov	SP, PROBE_SAVED(P)
	mov	PROBE_NR(P), AX
#ifdef __x86_64__
	mov	PROBE_A0(P), %rdi
	mov	PROBE_A1(P), %rsi
	mov	PROBE_A2(P), %rdx
#else
	mov	PROBE_A0(P), %ebx
	mov	PROBE_A1(P), %ecx
	mov	PROBE_A2(P), %edx
#endif
	mov	PROBE_FP(P), BP
	mov	PROBE_SP(P), SP
	jmp	*PROBE_STUB(P)

LABEL probe_back
	mov	PROBE_SAVED(P), SP
#ifdef __x86_64__
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbx
	pop	%rbp
#else
	pop	%edi
	pop	%esi
	pop	%ebx
	pop	%ebp
#endif
	ret

#if defined(__x86_64__) && !defined(__ILP32__)
/* void touch_at(unsigned long sp, unsigned long fp, __u64 *word) */
LABEL touch_at
	push	%rbp
	mov	%rsp, %rax
	mov	%rdi, %rsp
	mov	%rsi, %rbp
	movq	$1, (%rdx)
LABEL touch_ip
	mov	%rax, %rsp
	pop	%rbp
	ret
#endif

/* In the middle of a function */
STUB stub_plain
	nop
	jmp	probe_back

/* The first instruction of a function */
STUB stub_push
	push	BP
	mov	SP, BP
	jmp	probe_back

/* The push, in a program built for indirect branch tracking */
STUB stub_endbr_push
	ENDBR
	push	BP
	mov	SP, BP
	jmp	probe_back

/* The usual second instruction of a function, without the first */
STUB stub_mov
	mov	SP, BP
	jmp	probe_back

/* The last instruction of a function */
STUB stub_ret
	ret

/* The ret with a prefix, for the sake of old branch predictors */
STUB stub_rep_ret
	rep
	ret

/* The ret with the prefix that keeps the bounds registers */
STUB stub_bnd_ret
	.byte	0xf2
	ret

/* The ret of a function that removes its arguments */
STUB stub_ret_imm
	ret	$16

/* A landing pad says nothing about the frame */
STUB stub_endbr
	ENDBR
	nop
	jmp	probe_back

/* Calls the function in the first argument */
LABEL stub_call
	call	*PROBE_A0(P)
LABEL stub_call_ret
	jmp	probe_back

/*
 * That call with the trap flag on: one trap before every instruction of the
 * callee and of the four below.
 */
LABEL stub_step
	pushf
	orl	$0x100, (SP)
	popf
	call	*PROBE_A0(P)
LABEL stub_step_ret
	pushf
LABEL stub_step_and
	andl	$~0x100, (SP)
LABEL stub_step_popf
	popf
LABEL stub_step_jmp
	jmp	probe_back

/* Functions with a label on every instruction, to step through and to probe */
.macro EPILOGUE fn
LABEL \fn\()_nop
	nop
LABEL \fn\()_pop
	pop	BP
LABEL \fn\()_ret
	ret
.endm

LABEL plain_fn
	push	BP
LABEL plain_fn_mov
	mov	SP, BP
	EPILOGUE plain_fn

LABEL endbr_fn
	ENDBR
LABEL endbr_fn_push
	push	BP
LABEL endbr_fn_mov
	mov	SP, BP
	EPILOGUE endbr_fn

/* The other encoding of the move */
LABEL alt_fn
	push	BP
LABEL alt_fn_mov
#ifdef __x86_64__
	.byte	0x48
#endif
	.byte	0x8b, 0xec
	EPILOGUE alt_fn

/* Calls itself PROBE_A1 times, then makes the system call */
LABEL recurse_fn
	push	BP
	mov	SP, BP
	subl	$1, PROBE_A1(P)
	js	1f
	call	recurse_fn
LABEL recurse_fn_ret
	pop	BP
	ret
1:	mov	PROBE_NR(P), AX
	SYSCALL
LABEL recurse_fn_ip
	pop	BP
	ret

/* Three functions, the innermost makes the system call */
LABEL outer_fn
	push	BP
	mov	SP, BP
	call	middle_fn_jmp
LABEL outer_fn_ret
	pop	BP
	ret

/* Two functions with one return address */
LABEL middle_fn_jmp
	jmp	middle_fn

LABEL middle_fn
	push	BP
	mov	SP, BP
	call	inner_fn
LABEL middle_fn_ret
	pop	BP
	ret

LABEL inner_fn
	push	BP
	mov	SP, BP
	mov	PROBE_NR(P), AX
	SYSCALL
LABEL inner_fn_ip
	nop
	pop	BP
	ret

/* Loads one byte from PROBE_A1 */
LABEL load_fn
	push	BP
	mov	SP, BP
	mov	PROBE_A1(P), CX
LABEL load_fn_load
	movb	(CX), %al
	pop	BP
	ret

/* Takes the signal for which nothing is to be done */
LABEL handler_empty
	ret

/* It returns with the trap flag on: a trap before each instruction there. */
LABEL handler_step
	pushf
	orl	$0x100, (SP)
	popf
	ret

/* A signal handler with a sample in it */
LABEL handler_probe
	push	BP
	mov	SP, BP
	movl	handler_probe_nr, %eax
	SYSCALL
LABEL handler_probe_ip
	pop	BP
	ret

/* A signal handler that sends the next signal */
LABEL handler_raise
	push	BP
	mov	SP, BP
	push	BX
	movl	handler_raise_args, %eax
#ifdef __x86_64__
	movl	4 + handler_raise_args, %edi
	movl	8 + handler_raise_args, %esi
	movl	12 + handler_raise_args, %edx
#else
	movl	4 + handler_raise_args, %ebx
	movl	8 + handler_raise_args, %ecx
	movl	12 + handler_raise_args, %edx
#endif
	SYSCALL
LABEL handler_raise_ip
	nop
	pop	BX
	pop	BP
	ret

/* The trampolines C libraries give to sigaction */
#ifndef __x86_64__
#define NR_RT_SIGRETURN	173
#elif defined(__ILP32__)
#define NR_RT_SIGRETURN	0x40000201
#else
#define NR_RT_SIGRETURN	15
#endif
	nop
LABEL restorer_rt
	mov	$NR_RT_SIGRETURN, AX
LABEL restorer_rt_syscall
	SYSCALL
LABEL restorer_rt_end
	nop

/* As a toolchain for indirect branch tracking would have it */
LABEL restorer_rt_endbr
	ENDBR
	mov	$NR_RT_SIGRETURN, %eax
	SYSCALL
	nop

#ifdef __x86_64__
LABEL restorer_rt_short
	mov	$NR_RT_SIGRETURN, %eax
	syscall
	nop
#else
LABEL restorer_old
	pop	%eax
LABEL restorer_old_mov
	mov	$119, %eax
LABEL restorer_old_syscall
	int	$0x80
LABEL restorer_old_end
	nop

LABEL restorer_old_endbr
	endbr32
	pop	%eax
	mov	$119, %eax
	int	$0x80
	nop
#endif

/* A trampoline, and right after it other code */
LABEL restorer_near
	mov	$NR_RT_SIGRETURN, %eax
	SYSCALL
STUB stub_near
	nop
	jmp	probe_back

#ifndef __x86_64__
/* A function that calls the entry the vDSO chooses: sysenter, syscall or int */
LABEL vsyscall_fn
	push	BP
	mov	SP, BP
	mov	PROBE_NR(P), %eax
	call	*vsyscall_entry
LABEL vsyscall_fn_ret
	pop	BP
	ret
#endif

#if defined(__x86_64__) && !defined(__ILP32__)
/* time(NULL) through the vsyscall page */
LABEL stub_vsyscall_time
	xor	%edi, %edi
	mov	$0xffffffffff600400, %rax
	call	*%rax
LABEL stub_vsyscall_time_ret
	jmp	probe_back

/* An address of that page which is no vsyscall's */
LABEL stub_vsyscall_bad
	mov	$0xffffffffff600401, %rax
	call	*%rax
LABEL stub_vsyscall_bad_ret
	jmp	probe_back
#endif

#ifdef __x86_64__
/*
 * Far code: a 64-bit task in a 32-bit segment. PROBE_A0 is the code selector,
 * PROBE_A1 the offset in it, PROBE_A2 the stack selector, PROBE_A3 the stack
 * pointer in it. Addresses of this program fit in 32 bits.
 */
LABEL stub_far
	mov	%r15, far_probe
	mov	PROBE_A1(%r15), %eax
	mov	%eax, far_pointer
	mov	PROBE_A0(%r15), %eax
	mov	%ax, far_pointer + 4
	mov	PROBE_NR(%r15), %rax
	mov	%rdx, %rcx
	mov	PROBE_A3(%r15), %rdx
	ljmpl	*far_pointer

	.code32
.macro FAR_STUB name
LABEL \name
	movl	%ecx, %ss
	movl	%edx, %esp
	int	$0x80
LABEL \name\()_ip
.endm

FAR_STUB far_plain
	nop
	ljmp	$0x33, $far_back

FAR_STUB far_push
	push	%ebp
	movl	%esp, %ebp
	ljmp	$0x33, $far_back

FAR_STUB far_ret
	ret
LABEL far_ret_to
	ljmp	$0x33, $far_back

	.code64
LABEL far_back
	mov	$0x2b, %eax
	movl	%eax, %ss
	mov	far_probe, %r15
	jmp	probe_back

	.bss
	.balign	8
far_probe:
	.quad	0
far_pointer:
	.quad	0
#else
/* Far code of a 32-bit task: 64-bit code */
LABEL stub_far
	ljmp	$0x33, $far_plain
	.code64
LABEL far_plain
	syscall
LABEL far_plain_ip
	nop
	mov	$0x23, %eax
	push	%rax
	mov	$probe_back, %eax
	push	%rax
	lretq
	.code32
#endif

	.data
	.balign	8
LABEL handler_probe_nr
	.long	0
LABEL handler_raise_args
	.long	0, 0, 0, 0
#ifndef __x86_64__
LABEL vsyscall_entry
	.long	0
#endif

	.section .note.GNU-stack, "", @progbits
