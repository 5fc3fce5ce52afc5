# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The results of tests/unmodified for the output of perf script, with a made-up
# table. Sourced by run, which sets these:
: "${tmp:?}" "${harness:?}"

counting=$tmp/counting
unmodified=$harness/../tests/unmodified
mkdir -p "$counting/bin" "$counting/root/lib"
: > "$counting/root/lib/libc.so.6"
fake "$counting/bin/unwind-tables" << 'END'
# "show --rows FILE [OFFSET]"; only the C library of the made-up root has a table.
[[ $2 = --rows && $3 = */root/lib/libc.so.6 ]] || exit 1
case ${4:-} in
'')
	echo '0x1000-0x2000 cfa rsp+8, ra *(cfa-8), fp same'
	echo '0x2000-0x2010 cfa rsp+8, ra *(cfa-8), fp same, new thread'
	echo '0x2010-0x2020 outermost'
	;;
*) echo '0x1000-0x2000 unknown' ;;
esac
END
fake "$counting/bin/readelf" << 'END'
echo '  LOAD           0x001000 0x0000000000002000 0x0000000000002000 0x001200 0x001200 R E 0x1000'
[[ -e $NO_FDE ]] || echo '00000018 000000000000002c 0000001c FDE cie=00000000 pc=0000000000002080..0000000000002180'
END
export NO_FDE=$counting/no-fde

# ends COMM < SCRIPT
ends() {
	cat > "$counting/script"
	PATH=$counting/bin:$PATH "$unmodified/ends" "$1" "$counting/script" "$counting/root" \
		> "$counting/share" 2> "$counting/ends"
}
# Does the last one say so, in a whole line or as a part of one?
counts() { grep -qxF -- "$1" "$counting/share"; }
tells() { grep -qF -- "$1" "$counting/ends"; }

# The frame that calls is at the end of the range: it is the call before that counts.
ends sort << 'END'
bash      10/10    1.000000001: cpu-clock:u: 
	    7f0000001100 [unknown] (/lib/libc.so.6+0x1100)

sort      10/10    1.000000002: cpu-clock:u: 
	ffffffff81000000 [unknown] ([kernel.kallsyms])
	    7f0000001100 f(int (*)(int)) (/lib/libc.so.6+0x1100)
	    7f0000002020 [unknown] (/lib/libc.so.6+0x2020)

a thread  10/11    1.000000003: cpu-clock:u: 
	    7f0000002008 [unknown] (/lib/libc.so.6+0x2008)

a thread  10/11    1.000000004: cpu-clock:u: 
	    7f0000002008 [unknown] (/lib/libc.so.6+0x2008)

sort      10/10    1.000000005: page-faults:u: 
	    7f0000001100 f (x) (/lib/libc.so.6+0x1100)
	    7f0000001200 operator() (/lib/libc.so.6+0x1200)

sort      10/10    1.000000006: page-faults:u: 
	    7f0000001100 [unknown] (/lib/libc.so.6+0x1100)
	    7f0000101100 [unknown] (//anon+0x100)
	          123450 [unknown] ([unknown])

sort      10/10    1.000000007: page-faults:u: 
	    7f0000002018 [unknown] (/memfd:x (deleted)+0x2018)

sort      10/10    1.000000008: sched:sched_switch: prev_comm=sort
	ffffffff81000000 [unknown] ([kernel.kallsyms])

cat       12/12    1.000000009: cpu-clock:u: 
	    7f0000001100 [unknown] (/lib/libc.so.6+0x1100)

END
pass ends-counts-samples-of-all-threads-from-the-programs-name-on counts 'cpu-clock:u 2 3 0'
pass ends-counts-code-made-at-run-time-apart counts 'page-faults:u 0 3 2'
pass ends-counts-samples-without-user-stack-apart counts 'none 1 0'
pass ends-counts-frames-of-all-programs counts 'total 9 14'
pass ends-tells-name-offset-and-rule-of-the-end \
	tells '1 end at operator() in /lib/libc.so.6 (1 at 0x11ff: unknown)'
pass ends-tells-that-a-thread-is-new-once tells '1 end at [unknown] in /lib/libc.so.6 (1 at 0x2008: unknown)'

# Two samples wait for a record, of which one comes; of two that wait for none one is
# complete. All are at the same time.
ends sort << 'END'
0x345e8@/data [0x48]: event: 9
.
. ... raw event: size 72 bytes
.  0000:  09 00 00 00 02 00 48 00  ab 32 3f 6d 7f 00 00 00  ......H..2?m....

1000000002 0x345e8 [0x48]: PERF_RECORD_SAMPLE(IP, 0x2): 10/10: 0x7f0000001100 period: 1 addr: 0
... FP chain: nr:2
.....  0: fffffffffffffd80
.....  1: 00012b1d00000002
 ... thread: sort:10
 ...... dso: /lib/libc.so.6
sort      10/10    1.000000002: cpu-clock:u: 
	   12b1d00000002 (cookie)

1000000002 0x345e8 [0x48]: PERF_RECORD_SAMPLE(IP, 0x2): 10/11: 0x7f0000001100 period: 1 addr: 0
sort      10/11    1.000000002: cpu-clock:u: 
	   12b1d00000002 (cookie)

1000000002 0x34630 [0x38]: PERF_RECORD_CALLCHAIN_DEFERRED(IP, 0x2002): 10/10: 0x12b1d00000002
... FP chain: nr:1
sort      10/10    1.000000002: DEFERRED CALLCHAIN [cookie: 12b1d00000002]
	    7f0000001100 f (/lib/libc.so.6+0x1100)

0 1000000002 0x345e8 [0x48]: PERF_RECORD_SAMPLE(IP, 0x2001): 10/10: 0x7f0000002018 period: 1 addr: 0
sort      10/10    1.000000002: cpu-clock:u: 
	    7f0000002018 [unknown] (/lib/libc.so.6+0x2018)

0 1000000002 0x345e8 [0x48]: PERF_RECORD_SAMPLE(IP, 0x1): 10/10: 0x7f0000002018 period: 1 addr: 0
sort      10/10    1.000000002: cpu-clock:u: 
	    7f0000002018 [unknown] (/lib/libc.so.6+0x2018)

END
pass ends-puts-samples-and-records-together counts 'cpu-clock:u 2 3 0'
pass ends-counts-samples-whose-record-is-missing-apart counts 'none 0 1'
pass ends-tells-where-the-kernel-says-cut tells "1 are cut in the kernel's word, but not by their end: 1 at the entry"
pass ends-tells-where-the-kernel-says-complete \
	tells "1 are complete in the kernel's word, but not by their end: 1 at f in /lib/libc.so.6"

# pairs NAME NUMBERS CALLER [NR [FRAMES]] - of a stack taken twice; CALLER is the caller of f by DWARF,
# NR its system call's number, and FRAMES are those by tables. NUMBERS are pairs, complete ones by tables
# and by DWARF, stacks, frames, stacks that are cut, without CFI, without partner, and that differ.
pairs() {
	local of
	read -r -a of <<< "$2"
	{
		echo 'sort      10/10    1.000000001: tables: NR 1 (1, 2)'
		head -n "${5:-3}" << END
	    7f0000001100 f (/lib/libc.so.6+0x1100)
	    7f0000001200 g (/lib/libc.so.6+0x1200)
	    7f0000002019 [unknown] (/lib/libc.so.6+0x2019)
END
		cat << END

sort      10/10    1.000000002: dwarf: NR ${4:-1} = 0
	    7f0000001100 f (/lib/libc.so.6+0x1100)
	    7f000000$3 g (/lib/libc.so.6+0x$3)
	    7f0000002018 [unknown] (/lib/libc.so.6+0x2018)

sort      10/10    1.000000003: tables: 
	    7f0000001104 f (/lib/libc.so.6+0x1104)

sort      10/10    1.000000004: dwarf: 
	    7f0000001104 f (/lib/libc.so.6+0x1104)

END
	} > "$counting/script"
	PATH=$counting/bin:$PATH "$unmodified/../sframe-programs/pairs" "$counting/script" tables dwarf sort \
		"$counting/root" | tail -n 1 > "$counting/share"
	pass "$1" counts "${of[0]} pairs, complete ${of[1]} by tables and ${of[2]} by DWARF, ${of[3]} different stacks, ${of[4]} frames, 0 short at exit, ${of[5]} cut, ${of[6]} in code without CFI, ${of[7]} without partner, ${of[8]} differ"
}
pairs pairs-of-a-program-that-agree '2 1 1 1 3 0 0 0 0' 11ff
pairs pairs-that-agree-at-a-signal '2 1 1 1 3 0 0 0 0' 1200
pairs pairs-of-a-program-that-differ '2 1 1 1 3 0 0 0 1' 11fe
pairs pairs-of-two-system-calls-are-none '1 0 0 0 0 0 0 2 0' 11ff 2
pairs pairs-that-are-cut-where-the-table-does-not-know '2 0 1 1 1 1 0 0 0' 11ff 1 1
: > "$NO_FDE"
pairs pairs-that-differ-where-dwarf-has-no-rule '2 1 1 1 3 0 1 0 0' 11fe
