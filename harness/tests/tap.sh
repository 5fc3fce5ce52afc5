# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# tap on made-up outputs. Sourced by run, which sets these:
: "${tmp:?}" "${harness:?}"

# tap NAME 'PASSED FAILED SKIPPED' < OUTPUT - of a suite with STATUS, by default 0
tap() {
	local rc=0 counts
	read -r -a counts <<< "$2"
	CI=${in_ci:-} "$harness/tap" x "${status:-0}" > "$tmp/out" || true
	[[ $(tail -n 1 "$tmp/out") = "suite x: ${counts[0]} passed, ${counts[1]} failed, ${counts[2]} skipped" ]] || rc=1
	result "$rc" "tap/$1"
}
tap nothing-fails '0 1 0' <<< hello
tap all-skipped-ok '0 0 1' <<< '1..0 # SKIP not on this machine'
tap skip-without-reason-fails '0 1 1' <<< $'1..1\nok 1 a # SKIP'
tap bail-out-fails '1 1 0' <<< $'ok 1 a\nBail out! no perf'
tap fewer-than-planned-fails '1 1 0' <<< $'1..2\nok 1 a'
tap kernel-log-prefix-ok '1 0 0' <<< $'[    1.035292] 1..1\n[    1.035381] ok 1 a'
status=1 tap failure-fails '1 1 0' <<< $'1..2\nok 1 a\nnot ok 2 b'
status=120 tap status-without-failure-fails '1 1 0' <<< $'1..1\nok 1 a'
tap flat-ok '2 0 1' << 'END'
TAP version 13
1..3
ok 1 first
ok 2 second # SKIP no x32 compiler
ok 3 third
END
tap perf-lines-fails '1 1 1' << 'END'
 85: record fp,defer                          : Ok
 86: report                                   : FAILED!
 87: top                                      : Skip (no terminal)
END
tap kunit-failure-fails '1 1 0' << 'END'
    # Subtest: s
    1..2
    ok 1 a
    not ok 2 b
not ok 1 s
END
tap kunit-ok '3 0 0' << 'END'
KTAP version 1
1..1
    KTAP version 1
    # Subtest: unwind_deferred
    # module: unwind_deferred_kunit
    1..2
    ok 1 cookie
        KTAP version 1
        # Subtest: bits
        ok 1 first
        ok 2 last
    # bits: pass:2 fail:0 skip:0 total:2
    ok 2 bits
# unwind_deferred: pass:2 fail:0 skip:0 total:2
ok 1 unwind_deferred
END
tap kselftest-crash-fails '1 2 0' << 'END'
TAP version 13
1..1
# selftests: unwind: a
# 1..2
# ok 1 global.a1
not ok 1 selftests: unwind: a # exit=139
END
tap kselftest-runner-ok '2 0 1' << 'END'
TAP version 13
1..2
# timeout set to 300
# selftests: unwind: a
# TAP version 13
# 1..2
# # Starting 2 tests from 1 test cases.
# #  RUN           global.a1 ...
# #            OK  global.a1
# ok 1 global.a1
# ok 2 global.a2 # SKIP no swap
# # PASSED: 2 / 2 tests passed.
ok 1 selftests: unwind: a
# selftests: unwind: b
# 1..1
# ok 1 global.b1
ok 2 selftests: unwind: b
END
skips=$(printf '%s\n' 1..4 'ok 1 page.shows_the_function # SKIP needs the package chromium' 'ok 2 page.needs_no_network' \
	'ok 3 chains.are_those_of_newer_perf # SKIP needs the packages of Debian testing, log: /x/toolroot-forky.log' \
	'ok 4 rseq.is_seen # SKIP needs a C library that has registered rseq')
tap skip-without-package-ok '1 0 3' <<< "$skips"
in_ci=true tap skip-without-package-in-ci-fails '1 2 3' <<< "$skips"
