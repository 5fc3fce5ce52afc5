/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The functions and places that sigreturn_target.c has in assembly.
 */
#ifndef SIGRETURN_TARGET_H
#define SIGRETURN_TARGET_H

void restorer_rt(void);
void restorer_old(void);
extern const char restorer_rt_end[], restorer_old_end[], kill_ip[];

int raw_kill(int pid, int sig);

#endif /* SIGRETURN_TARGET_H */
