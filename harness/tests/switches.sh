# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The result of tests/switches/judge for the output of perf script, with a made-up table.
# Sourced by run, which sets these:
: "${tmp:?}" "${harness:?}"

switches=$tmp/switches
mkdir -p "$switches/bin"
# "show --rows FILE OFFSET"; it is not asked about addresses in no file.
fake "$switches/bin/unwind-tables" << 'END'
case $4 in
10f) echo '0x100-0x200 unknown' ;;
20f) echo '0x200-0x300 cfa rbx+8, ra *(cfa-8), fp same' ;;
*) echo '0x300-0x400 cfa rsp+8, ra *(cfa-8), fp same' ;;
esac
END
# Four stacks in records or samples, of which one is complete, and one of another program
cat > "$switches/script" << 'END'
0 100 0x10 [0x10]: PERF_RECORD_SAMPLE(IP, 0x4002): 10/10: 0x1 period: 1 addr: 0
calls 10/10 1.000000001: cpu-clock:u: 
	    1 (cookie)
0 100 0x20 [0x10]: PERF_RECORD_CALLCHAIN_DEFERRED(IP, 0x2002): 10/10: 0x1
calls 10/10 1.000000002: DEFERRED CALLCHAIN [cookie: 1]
	    7f0000001100 a (/bin/true+0x310)
	    7f0000001100 b (/bin/true+0x320)
0 100 0x30 [0x10]: PERF_RECORD_SAMPLE(IP, 0x2): 10/10: 0x1 period: 1 addr: 0
calls 10/10 1.000000003: cpu-clock:u: 
	    7f0000001100 a (/bin/true+0x310)
	    7f0000001100 c (/bin/true+0x110)
0 100 0x40 [0x10]: PERF_RECORD_SAMPLE(IP, 0x2): 10/10: 0x1 period: 1 addr: 0
calls 10/10 1.000000004: cpu-clock:u: 
	    7f0000001100 a (/bin/true+0x310)
	    7f0000001100 d (/bin/true+0x210)
0 100 0x50 [0x10]: PERF_RECORD_SAMPLE(IP, 0x2): 10/10: 0x1 period: 1 addr: 0
calls 10/10 1.000000005: cpu-clock:u: 
	    7f0000001100 a (/bin/true+0x310)
	           20000 [unknown] ([unknown])
0 100 0x60 [0x10]: PERF_RECORD_SAMPLE(IP, 0x2): 11/11: 0x1 period: 1 addr: 0
other 11/11 1.000000006: cpu-clock:u: 
	    7f0000001100 a (/bin/true+0x310)
END
pass switches-are-judged env PATH="$switches/bin:$PATH" bash -c "
	'$harness/../tests/switches/judge' calls '$switches/script' > '$switches/share' 2> '$switches/ends'"
pass switches-are-counted grep -qx '4 1 1 1 1' "$switches/share"
pass switches-are-told-by-place grep -qx '1 end at c, below the topmost frame: unknown' "$switches/ends"
