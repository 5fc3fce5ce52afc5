/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The functions and places that deferred_lifecycle.c has in assembly.
 */
#ifndef DEFERRED_LIFECYCLE_H
#define DEFERRED_LIFECYCLE_H

void restorer(void);
extern const char restorer_end[];

void other_place(void);

void call_probed(void (*func)(void));
void probed_push(void);
void probed_nop(void);
void probed_lea(void);
extern const char call_probed_ip[], probed_nop_ip[], probed_lea_ip[];

#endif /* DEFERRED_LIFECYCLE_H */
