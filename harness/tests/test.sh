# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016 # what is quoted expands in other shells
#
# test and selftests with made-up suites, build and guests. Sourced by run,
# which sets these:
: "${tmp:?}" "${harness:?}"

faked=$tmp/faked
mkdir -p "$faked/out"
cp -r "$harness" "$faked/harness"
rm "$faked"/harness/suites/* "$faked"/harness/{build,boot}
cat > "$faked/harness/build" << 'END'
#!/bin/bash
echo "$*" >> "$FAKED/out/builds"
if [[ $* = kernel ]]; then
	# Takes until the suite before has seen it begin.
	: > "$FAKED/out/begun"
	for try in {1..600}; do [[ ! -e $FAKED/out/seen ]] || break; sleep 0.1; done
fi
[[ $* != broken* ]]
END
chmod +x "$faked/harness/build"

# suite NAME HEADER SCRIPT - one that prints a result, or not, and takes note
# of how many run
suite() {
	cat > "$faked/harness/suites/$1" << END
#!/bin/bash
$2
set -eu
cd "$faked/out"
: > running-$1
running=(running-*)
# Sees the other one, if it comes within a minute
met() { for try in {1..600}; do [[ -e \$1 ]] && return; sleep 0.1; done; return 1; }
$3
rm running-$1
END
	chmod +x "$faked/harness/suites/$1"
}
faked() {
	FAKED=$faked UNWIND_CACHE=$tmp/faked-cache UNWIND_BUILD=$faked/build UNWIND_LOGS=$faked/build/logs \
		env -u CI -u UNWIND_TREE -u UNWIND_ROOT "$@"
}
says() { grep -qxF -- "$1" "$tmp/said"; }

alone='((${#running[@]} == 1)); echo ok 1 alone; echo ok 2 alone too'
suite 10-alone '# needs: one' "$alone"
suite 20-first $'# needs: one two\n# beside' ': > first; met second; echo ok 1 met'
suite 21-second $'# needs: two\n# beside' ': > second; met first; echo ok 1 met; echo not ok 2 worse'
suite 22-third '# beside' '((${#running[@]} <= 2)); sleep 0.2; echo "ok 1 x # SKIP for a reason"'
suite 23-fourth '# beside' '((${#running[@]} <= 2)); echo 1..2; echo ok 1 one of two'
suite 24-unbuilt $'# needs: broken one\n# beside' 'echo ok 1 not reached'
suite 25-unbuilt-too '# needs: broken' 'echo ok 1 not reached'
suite 30-alone-again '# needs: one' "$alone"
faked "$faked/harness/test" > "$tmp/said" 2>&1 && rc=0 || rc=$?
cp "$tmp/said" "$tmp/out"
result $((rc != 1)) test-with-failing-suites-fails
for line in 'alone: 2 passed, 0 failed' 'first: 1 passed, 0 failed' 'second: 1 passed, 1 failed' \
	'fourth: 1 passed, 1 failed' 'unbuilt: 0 passed, 1 failed' 'unbuilt-too: 0 passed, 1 failed' \
	'alone-again: 2 passed, 0 failed'; do
	pass "test-counts-${line%%:*}" says "suite $line, 0 skipped"
done
pass test-counts-third says 'suite third: 0 passed, 0 failed, 1 skipped'
pass test-sums-up says '7 passed, 4 failed, 1 skipped'
pass test-says-at-the-end-what-failed bash -c 'tail -n 20 "$1" | grep -qx "second: worse"' _ "$tmp/said"
pass test-keeps-the-lines-of-a-suite-together bash -c 'grep -A 1 "FAILED: worse" "$1" | grep -q "^suite second:"' _ "$tmp/said"
pass test-builds-once test "$(xargs < "$faked/out/builds")" = 'one two broken'
pass test-of-one-suite-that-passes faked "$faked/harness/test" alone
refuse test-of-no-such-suite-fails 'there are: alone first' faked "$faked/harness/test" none

# Kernels for later suites are built meanwhile.
rm "$faked"/harness/suites/* "$faked/out/builds"
suite 10-early '# needs: one' 'met begun; : > seen; echo ok 1 seen'
suite 20-late $'# needs: kernel\n# ahead: kernel' 'echo ok 1 built'
suite 30-unbuilt $'# needs: broken-kernel\n# ahead: broken-kernel' 'echo ok 1 not reached'
faked "$faked/harness/test" > "$tmp/said" 2>&1 || true
cp "$tmp/said" "$tmp/out"
pass test-builds-ahead says '2 passed, 1 failed, 0 skipped'
pass test-builds-ahead-once test "$(sort "$faked/out/builds" | xargs)" = 'broken-kernel kernel one'
pass test-says-how-long-each-suite-took test "$(grep -cE '^ +[0-9]+ s, +[0-9]+ s of CPU time  (early|late|unbuilt)$' "$tmp/said")" = 3

# One in the idle class runs beside one that is alone, and is waited for.
rm "$faked"/harness/suites/*
rm -f "$faked"/out/*
suite 10-idle '# idle' 'chrt -p $BASHPID | grep -q SCHED_IDLE; : > first; met second; sleep 0.5; echo ok 1 met'
suite 20-normal '' 'met first; ! chrt -p $BASHPID | grep SCHED_IDLE; : > second; echo ok 1 met'
suite 30-next '' 'met first; echo ok 1 met'
faked "$faked/harness/test" > "$tmp/said" 2>&1 || true
cp "$tmp/said" "$tmp/out"
pass test-runs-a-suite-in-the-idle-class says '3 passed, 0 failed, 0 skipped'
faked "$faked/harness/test" idle > "$tmp/said" 2>&1 || true
pass test-of-one-suite-alone-is-not-idle says '0 passed, 1 failed, 0 skipped'
rm "$faked"/out/*

# CI runs failed suites a second time, alone, and counts that.
rm "$faked"/harness/suites/*
twice='if [[ -e before ]]; then ((${#running[@]} == 1)); echo ok 1 in the end; else : > before; echo not ok 1 at first; fi'
suite 10-once '# beside' "$twice"
suite 11-always '# beside' 'echo run >> always; echo ok 1 good; echo not ok 2 worse'
suite 12-steady '# beside' 'echo run >> steady; echo ok 1 good'
faked env CI=true "$faked/harness/test" > "$tmp/said" 2>&1 && rc=0 || rc=$?
cp "$tmp/said" "$tmp/out"
result $((rc != 1)) test-in-ci-fails-with-what-fails-twice
pass test-in-ci-prints-the-first-result says 'suite once: 0 passed, 1 failed, 0 skipped'
pass test-in-ci-counts-the-second-result says '3 passed, 1 failed, 0 skipped'
pass test-in-ci-names-what-failed-at-first grep -qE '^test: failed the first time: (once always|always once)$' "$tmp/said"
pass test-in-ci-runs-a-suite-twice-at-most test "$(wc -l < "$faked/out/always") $(wc -l < "$faked/out/steady")" = '2 1'
rm "$faked/out/before" "$faked/out/always"
faked env CI=true UNWIND_CI_SECONDS=-1 "$faked/harness/test" once always > "$tmp/said" 2>&1 && rc=0 || rc=$?
pass test-in-ci-has-no-time-to-run-it-again says '1 passed, 2 failed, 0 skipped'
pass test-in-ci-says-that-there-is-no-time says 'test: suite once failed, and there is no time left to run it again'
rm "$faked/out/before" "$faked/out/always"
sed -i '2s/.*/# again: 2000/' "$faked"/harness/suites/11-always
faked env CI=true UNWIND_CI_SECONDS=1000 "$faked/harness/test" once always > "$tmp/said" 2>&1 && rc=0 || rc=$?
pass test-in-ci-knows-how-long-a-part-takes says 'test: suite always failed, and there is no time left to run it again'
pass test-in-ci-runs-again-what-there-is-time-for says 'test: failed the first time: once'
rm "$faked/out/before"
faked "$faked/harness/test" once > "$tmp/said" 2>&1 && rc=0 || rc=$?
result $((rc != 1)) test-outside-of-ci-runs-a-suite-once

# A failure counts if the others have left no time to run it again.
rm "$faked/out/before"
suite 13-long '' 'sleep 4; echo ok 1 good'
faked env CI=true UNWIND_CI_SECONDS=3 "$faked/harness/test" once long > "$tmp/said" 2>&1 && rc=0 || rc=$?
pass test-in-ci-counts-what-is-not-run-again says '1 passed, 1 failed, 0 skipped'
pass test-in-ci-says-what-is-not-run-again says 'test: there is no time left to run once again'

faked env CI=true UNWIND_CI_LAST=-1 "$faked/harness/test" always steady > "$tmp/said" 2>&1 && rc=0 || rc=$?
result "$rc" test-in-ci-begins-nothing-too-late
pass test-in-ci-counts-what-comes-too-late says '0 passed, 0 failed, 2 skipped'

# However it ends, no process goes on.
rm "$faked"/harness/suites/*
suite 10-left $'# beside' 'sleep 3600 & echo $! >> sleeping; sleep 3601 & echo $! >> sleeping; wait'
suite 11-right $'# beside' 'sleep 3602 & echo $! >> sleeping; wait'
nobody() { until_true bash -c 'for pid in $(cat "$1"); do ! kill -0 $pid || exit 1; done' _ "$faked/out/sleeping"; }
for signal in INT TERM HUP; do
	rm -f "$faked/out/sleeping"
	set -m # in the background SIGINT would be ignored, as where this is started so
	faked env --default-signal "$faked/harness/test" > "$tmp/said" 2>&1 &
	set +m
	pass "test-runs-before-SIG$signal" until_true bash -c '(($(wc -l < "$1") == 3))' _ "$faked/out/sleeping"
	kill -s "$signal" -- -$!
	{
		until_true bash -c '! kill -0 "$1"' _ $! || kill -s KILL -- -$!
		wait $! && rc=1 || rc=0
	} 2> /dev/null
	result "$rc" "test-fails-on-SIG$signal"
	pass "test-leaves-nothing-after-SIG$signal" nobody
done

# Two guests share the programs; both count.
cat > "$faked/harness/boot" << 'END'
#!/bin/bash
# Runs the command here, once the other guest is there. That one is in a process
# group of its own.
[[ $(cut -d ' ' -f 5 /proc/$$/stat) = "$FAKED_GROUP" ]] && guest=first || guest=other
: > "$FAKED/out/$guest"
for ((try = 0; try < 600; try++)); do
	[[ -n ${UNWIND_AGAIN:-} || -e $FAKED/out/first && -e $FAKED/out/other ]] && break
	sleep 0.1
done
export TMPDIR=$FAKED/out
bash -c "${*: -1}"
[[ ! -e $FAKED/out/$guest-stopped ]] || exit 121
if [[ -e $FAKED/out/$guest-dies ]]; then
	mv "$FAKED/out/$guest-dies" "$FAKED/out/died"
	exit 119
fi
[[ $guest = first ]] && exit "${FAKED_FIRST:-0}"
exit "${FAKED_OTHER:-0}"
END
install=$faked/build/selftests/install
mkdir -p "$install/unwind"
cat > "$install/run_kselftest.sh" << 'END'
#!/bin/bash
program=${*: -1}
[[ $(cut -d ' ' -f 5 /proc/$$/stat) = "$FAKED_GROUP" ]] && guest=first || guest=other
stop() { # HOW
	: > "$FAKED/out/$guest-$1"
	kill $PPID
	exit
}
# The next program is taken, too, but prints nothing.
[[ $guest != "$(cat "$FAKED/out/next" 2> /dev/null)" || -e $FAKED/out/died ]] || stop dies
printf '%s\n' 'TAP version 13' 1..1 "# selftests: ${program/:/: }"
[[ $program != "unwind:${FAKED_STOP:-}" ]] || stop stopped
[[ $program != "unwind:${FAKED_DIES:-}" || -e $FAKED/out/died ]] || stop dies
sleep 0.2
echo "$program" >> "$FAKED/out/ran"
[[ $program != "unwind:${FAKED_FAIL:-}" ]] || printf 'not '
echo "ok 1 selftests: ${program/:/: }"
[[ $program != "unwind:${FAKED_DIES_AFTER:-}" ]] || echo "$guest" > "$FAKED/out/next"
END
chmod +x "$faked/harness/boot" "$install/run_kselftest.sh"
printf 'unwind:%s\n' new_test walker_frames_test deferred_window deferred_stress > "$install/kselftest-list.txt"
group=$(cut -d ' ' -f 5 /proc/$$/stat)
guests() { # SUMMARY [VARIABLE=VALUE...] - as the suite sees it
	local summary=$1 rc=0
	shift
	rm -f "$faked"/out/{first,other}* "$faked"/out/{ran,died,next}
	faked env FAKED_GROUP="$group" "$@" "$faked/harness/selftests" none > "$tmp/said" 2>&1 || rc=$?
	"$harness/tap" x "$rc" < "$tmp/said" | tee "$tmp/counted"
	[[ $(tail -n 1 "$tmp/counted") = "suite x: $summary" ]]
}
pass selftests-in-two-guests guests '4 passed, 0 failed, 0 skipped'
pass selftests-start-both-guests test -e "$faked/out/first" -a -e "$faked/out/other"
pass selftests-run-each-program-once bash -c 'diff <(sed -n "s/^ok.*: //p" "$1" | sort) <(cut -d: -f2 "$2" | sort)' _ \
	"$tmp/said" "$install/kselftest-list.txt"
pass selftests-keep-a-guests-lines-together test "$(grep -A 1 '^# selftests: ' "$tmp/said" | grep -c '^ok')" = 4
pass selftests-say-how-long-each-took test "$(grep -c '^# [a-z_0-9]* took [0-9]* s$' "$tmp/said")" = 4
pass selftests-run-again guests '4 passed, 0 failed, 0 skipped'
pass selftests-notice-a-splat-in-the-first guests '4 passed, 1 failed, 0 skipped' FAKED_FIRST=120
pass selftests-notice-a-splat-in-the-other guests '4 passed, 1 failed, 0 skipped' FAKED_OTHER=120
pass selftests-run-the-rest-where-a-guest-stops guests '3 passed, 1 failed, 0 skipped' FAKED_STOP=deferred_window

# The program at which an emulator failed is run again, and no other.
once() { # PROGRAM...
	diff <(printf 'unwind:%s\n' "$@" | sort) <(sort "$faked/out/ran")
}
pass selftests-when-the-emulator-fails guests '4 passed, 0 failed, 0 skipped' FAKED_DIES=deferred_window
pass selftests-run-again-where-it-failed once new_test walker_frames_test deferred_window deferred_stress
pass selftests-when-it-fails-after-one guests '4 passed, 0 failed, 0 skipped' FAKED_DIES_AFTER=deferred_stress
pass selftests-keep-the-one-before once new_test walker_frames_test deferred_window deferred_stress

# Failed programs are run again, and the others are counted once.
pass selftests-that-fail guests '3 passed, 1 failed, 0 skipped' FAKED_FAIL=deferred_window
cp "$tmp/said" "$tmp/first"
pass selftests-again guests '4 passed, 0 failed, 0 skipped' UNWIND_AGAIN="$tmp/first"
pass selftests-again-run-what-failed test "$(cat "$faked/out/ran")" = unwind:deferred_window
pass selftests-again-that-fail guests '3 passed, 1 failed, 0 skipped' FAKED_FAIL=deferred_window UNWIND_AGAIN="$tmp/first"
guests - FAKED_FAIL=deferred_window FAKED_OTHER=120 || cp "$tmp/said" "$tmp/first"
pass selftests-after-a-splat-run-again guests '4 passed, 0 failed, 0 skipped' UNWIND_AGAIN="$tmp/first"
pass selftests-after-a-splat-run-all-again test "$(wc -l < "$faked/out/ran")" = 4
