# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# verdict on made-up console logs. Sourced by run, which sets these:
: "${tmp:?}" "${harness:?}"

began='[    1.481063] Run /.guest-init as init process'
# verdict NAME STATUS END LINE... - of a guest with this end marker and console
verdict() {
	local rc=0
	printf '%s\n' "${@:4}" > "$tmp/console"
	rm -f "$tmp/end"
	[[ -z $3 ]] || echo "$3" > "$tmp/end"
	UNWIND_SPLATS=${splats:-$harness/splats} UNWIND_SPLATS_ALLOWED=$tmp/allowed UNWIND_KCSAN_FUNCTIONS=${functions:-} \
		"$harness/verdict" "$tmp/console" "$tmp/end" > "$tmp/out" 2>&1 || rc=$?
	result $((rc != $2)) "verdict/$1"
}
complains() { verdict "$1" 120 'END status=0' "$2"; } # NAME LINE
verdict clean-ok 0 'END status=0' "$began" '[    2.0] init: command ended with status 0' '[    2.1] sysrq: Resetting'
verdict command-failed-ok 0 'END status=1' "$began"
verdict empty-end-marker-fails 121 END "$began"
verdict no-end-marker-fails 121 '' "$began"
complains warning-fails "$began"$'\n[    2.0] ------------[ cut here ]------------\n[    2.0] WARNING: CPU: 1 PID: 77 at kernel/unwind/deferred.c:1 f+0x1/0x2'
complains warn-on-without-line-fails '[    2.0] WARNING: CPU: 1 PID: 77 f+0x1/0x2'
complains hung-task-fails '[  200.0] INFO: task a:1 blocked for more than 122 seconds.'
complains kasan-fails '[    2.0] BUG: KASAN: slab-use-after-free in f+0x1/0x2'
complains kcsan-fails '[    2.0] BUG: KCSAN: data-race in a / b'
complains kmemleak-fails '[    9.0] kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)'
complains lockdep-fails '[    2.0] WARNING: possible circular locking dependency detected'
complains rcu-self-stall-fails '[   60.0] rcu: INFO: rcu_preempt self-detected stall on CPU'
complains rcu-stall-fails '[   60.0] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:'
complains rcu-usage-fails '[    2.0] WARNING: suspicious RCU usage'
complains sleeping-fails '[    2.0] BUG: sleeping function called from invalid context at mm/x.c:1'
complains soft-lockup-fails '[   60.0] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [a:1]'
complains ubsan-fails '[    2.0] UBSAN: shift-out-of-bounds in kernel/x.c:1:2'
verdict bug-fails 120 '' '[    2.0] kernel BUG at mm/slub.c:1!'
verdict oops-fails 120 '' '[    2.0] Oops: general protection fault, maybe for address 0x0: 0000 [#1] PREEMPT SMP'
int3='[  149.233959] Oops: int3: 0000 [#1] PREEMPT SMP'
verdict emulator-int3-fails 119 '' "$int3" '[  149.234646] Code: 89 c1 d7 00 00 00 0f <1f> 44 00 00 66'
verdict kernel-int3-fails 120 '' "$int3" '[  149.234646] Code: 89 c1 d7 00 00 00 cc <1f> 44 00 00 66'

functions=$tmp/functions
printf '%s\n' unwind_deferred_request look > "$functions"
complains kcsan-of-ours-fails '[    2.0] BUG: KCSAN: data-race in bprm_execve / unwind_deferred_request'
verdict kcsan-of-others-ok 0 'END status=0' '[    2.0] BUG: KCSAN: data-race in hrtimer_active / __hrtimer_run_queues' \
	'[    3.0] BUG: KCSAN: data-race in ktime_get_mono_fast_ns+0xd0/0x1a0'
unset functions

known='[    2.0] WARNING: known thing in f'
printf '2099-01-01\tWARNING: known thing\tan example, https://example.org/1\n' > "$tmp/allowed"
verdict allowed-ok 0 'END status=0' "$known"
sed -i 's/^2099/2020/' "$tmp/allowed"
complains allowed-expired-fails "$known"
printf '2099-01-01\tWARNING: known thing\n' > "$tmp/allowed"
verdict allowed-without-reason-fails 122 'END status=0' "$began"
rm "$tmp/allowed"
splats=$tmp/splats
printf '# nothing\n\n' > "$splats"
verdict empty-pattern-list-fails 122 'END status=0' "$began"
unset splats
