/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SELFTESTS_UNWIND_WALKER_STUBS_H
#define _SELFTESTS_UNWIND_WALKER_STUBS_H

#define PROBE_STUB	0
#define PROBE_SP	8
#define PROBE_FP	16
#define PROBE_NR	24
#define PROBE_A0	32
#define PROBE_A1	40
#define PROBE_A2	48
#define PROBE_A3	56
#define PROBE_SAVED	64

#ifndef __ASSEMBLER__
#include <linux/types.h>

/* Words of the machine; 64 bits wide so that every ABI has the same layout */
struct probe {
	__u64 stub;
	__u64 sp;
	__u64 fp;
	__u64 nr;
	__u64 args[4];
	__u64 saved;
};

void probe_at(struct probe *p);

extern char probe_back[];
extern char stub_plain[], stub_plain_ip[];
extern char stub_push[], stub_push_ip[];
extern char stub_endbr_push[], stub_endbr_push_ip[];
extern char stub_mov[], stub_mov_ip[];
extern char stub_ret[], stub_ret_ip[];
extern char stub_rep_ret[], stub_rep_ret_ip[];
extern char stub_bnd_ret[], stub_bnd_ret_ip[];
extern char stub_ret_imm[], stub_ret_imm_ip[];
extern char stub_endbr[], stub_endbr_ip[];
extern char stub_call[], stub_call_ret[];
extern char stub_step[], stub_step_ret[];
extern char stub_step_and[], stub_step_popf[], stub_step_jmp[];

extern char plain_fn[], plain_fn_mov[], plain_fn_nop[], plain_fn_pop[], plain_fn_ret[];
extern char endbr_fn[], endbr_fn_push[], endbr_fn_mov[], endbr_fn_nop[];
extern char endbr_fn_pop[], endbr_fn_ret[];
extern char alt_fn[], alt_fn_mov[], alt_fn_nop[], alt_fn_pop[], alt_fn_ret[];
extern char recurse_fn[], recurse_fn_ret[], recurse_fn_ip[];
extern char outer_fn[], outer_fn_ret[];
extern char middle_fn_jmp[], middle_fn[], middle_fn_ret[];
extern char inner_fn[], inner_fn_ip[];
extern char load_fn[], load_fn_load[];

extern char handler_empty[], handler_step[];
extern char handler_probe[], handler_probe_ip[];
extern char handler_raise[], handler_raise_ip[];
extern int handler_probe_nr;
extern int handler_raise_args[4];

extern char restorer_rt[], restorer_rt_syscall[], restorer_rt_end[];
extern char restorer_rt_endbr[];
extern char restorer_near[], stub_near[], stub_near_ip[];
#ifdef __x86_64__
extern char restorer_rt_short[];
#else
extern char restorer_old_endbr[];
extern char restorer_old[], restorer_old_mov[], restorer_old_syscall[];
extern char restorer_old_end[];
extern char vsyscall_fn[], vsyscall_fn_ret[];
extern unsigned long vsyscall_entry;
#endif
#if defined(__x86_64__) && !defined(__ILP32__)
void touch_at(unsigned long sp, unsigned long fp, __u64 *word);
extern char touch_ip[];
extern char stub_vsyscall_time[], stub_vsyscall_time_ret[];
extern char stub_vsyscall_bad[], stub_vsyscall_bad_ret[];
#endif
/* 32-bit code in a 64-bit task, and 64-bit code in a 32-bit one */
extern char stub_far[], far_plain[], far_plain_ip[];
#ifdef __x86_64__
extern char far_push[], far_push_ip[];
extern char far_ret[], far_ret_ip[], far_ret_to[];
#endif
#endif

#endif
