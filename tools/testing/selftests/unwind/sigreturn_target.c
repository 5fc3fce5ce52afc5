// SPDX-License-Identifier: GPL-2.0
/*
 * Goes through a signal handler with a known return path, for the three kinds
 * of sigreturn that are not the 64-bit one (which deferred_lifecycle.c does
 * itself). Built as a 32-bit and as an x32 program.
 *
 *	sigreturn_target --probe		is it runnable?
 *	sigreturn_target SESSION POINT WORKS KIND [bad|twice]
 *
 * KIND is rt or old (32-bit only). With "bad" the frame cannot be restored: its
 * floating point state is nowhere, and SIGSEGV comes instead. In the handler, a
 * probe at POINT is set up for this thread through the test module's session,
 * which is open as file descriptor SESSION; the next hit is in the return from
 * the signal. With "twice" there is another probe in the middle of that. Prints
 * its thread id, the address after the sigreturn system call, and the address at
 * which the signal interrupted it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "sigreturn_target.h"

/* The kernel's, for the real system call. */
struct kernel_sigaction {
	void		(*handler)(int sig);
	unsigned long	flags;
	void		(*restorer)(void);
	unsigned long	mask[2];
};

#define KERNEL_SA_RESTORER	0x04000000

/* Filled in beforehand: the handler makes system calls only. */
static char command[256], command2[256];
static int session, command_len, command2_len, bad, twice;
/* In page 0, where nothing is */
#define NOWHERE		((void *)64)

#ifndef __x86_64__
/* Frame pointer 0: nothing is beyond. The old handler's argument is popped. */
asm(".text\n"
	"restorer_rt:\n"
	"	mov $173, %eax\n"
	"	int $0x80\n"
	"restorer_rt_end:\n"
	"	nop\n"
	"restorer_old:\n"
	"	pop %eax\n"
	"	mov $119, %eax\n"
	"	int $0x80\n"
	"restorer_old_end:\n"
	"	nop\n"
	"raw_kill:\n"
	"	push %ebp\n"
	"	push %ebx\n"
	"	mov 12(%esp), %ebx\n"
	"	mov 16(%esp), %ecx\n"
	"	xor %ebp, %ebp\n"
	"	mov $37, %eax\n"
	"	int $0x80\n"
	"kill_ip:\n"
	"	pop %ebx\n"
	"	pop %ebp\n"
	"	ret\n");
#define SIGACTION_NR	174
#else
asm(".text\n"
	"restorer_rt:\n"
	"restorer_old:\n"
	"	mov $(0x40000000 + 513), %eax\n"
	"	syscall\n"
	"restorer_rt_end:\n"
	"restorer_old_end:\n"
	"	nop\n"
	"raw_kill:\n"
	"	push %rbp\n"
	"	xor %ebp, %ebp\n"
	"	mov $(0x40000000 + 62), %eax\n"
	"	syscall\n"
	"kill_ip:\n"
	"	pop %rbp\n"
	"	ret\n");
#define SIGACTION_NR	(0x40000000 + 512)
#endif

static void set_probe(void)
{
	if (twice && write(session, command2, command2_len) != command2_len)
		_exit(3);
	if (write(session, command, command_len) != command_len)
		_exit(3);
}

static void handler_rt(int sig, siginfo_t *info, void *uc)
{
	if (bad)
		((ucontext_t *)uc)->uc_mcontext.fpregs = NOWHERE;
	set_probe();
}

/* The frame follows the argument. */
static void handler_old(int sig, struct sigcontext sc)
{
	if (bad)
		sc.fpstate = NOWHERE;
	/* It is sigreturn that looks at it. */
	asm("" : : "m" (sc));
	set_probe();
}

static void handler_segv(int sig)
{
}

int main(int argc, char **argv)
{
	struct kernel_sigaction action = { .flags = KERNEL_SA_RESTORER };
	int old, len;

	if (argc == 2 && !strcmp(argv[1], "--probe"))
		return 0;
	if (argc != 5 && argc != 6)
		return 2;
	bad = argc == 6 && !strcmp(argv[5], "bad");
	twice = argc == 6 && !strcmp(argv[5], "twice");
	session = atoi(argv[1]);
	old = !strcmp(argv[4], "old");
	command_len = snprintf(command, sizeof(command),
			       "probe 0 %s %d %s task 0 1", argv[2], getpid(),
			       argv[3]);
	command2_len = snprintf(command2, sizeof(command2),
				"probe 1 kprobe:fpu__restore_sig %d %s task 0 1",
				getpid(), argv[3]);
	action.restorer = restorer_old;
	action.handler = handler_segv;
	if (syscall(SIGACTION_NR, SIGSEGV, &action, NULL, 8))
		return 4;
	action.flags |= old ? 0 : SA_SIGINFO;
	action.restorer = old ? restorer_old : restorer_rt;
	action.handler = old ? (void *)handler_old : (void *)handler_rt;
	if (syscall(SIGACTION_NR, SIGUSR1, &action, NULL, 8))
		return 4;
	len = printf("%d %lx %lx\n", getpid(),
		     (unsigned long)(old ? restorer_old_end : restorer_rt_end),
		     (unsigned long)kill_ip);
	if (len < 0 || fflush(stdout))
		return 5;
	return raw_kill(getpid(), SIGUSR1) ? 6 : 0;
}
