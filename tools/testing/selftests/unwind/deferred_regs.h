/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The functions and places that deferred_regs.c has in assembly.
 */
#ifndef DEFERRED_REGS_H
#define DEFERRED_REGS_H

#include <sys/rseq.h>

void call_regs(void (*func)(long arg), long arg, long fp);
extern const char regs_ip_call[];

void rseq_spin(long rseq);
extern const char rseq_start[], rseq_end[], rseq_abort[];
long rseq_syscall(struct rseq *rseq, long nr, long a0, long a1, long a2);

void do_sgdt(long arg);
void do_cli(long arg);
extern const char ip_sgdt[], ip_cli[];

void framed_fn(long arg);
void bare_fn(long arg);
void other_fn(long arg);

#endif /* DEFERRED_REGS_H */
