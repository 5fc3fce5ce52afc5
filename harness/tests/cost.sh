# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# cost: its statistics with known numbers, and its turns with a made-up perf. Sourced by run,
# which sets these:
: "${tmp:?}" "${harness:?}"

export COST=$tmp/cost
mkdir -p "$COST/bin" "$COST/build"
cost() { PATH=$COST/bin:$PATH UNWIND_BUILD=$COST/build UNWIND_LOGS=$COST/build MIN=0 "$harness/cost" "$@"; }

# sums NAME RESULT GOAL DIFFERENCE... - turns with these differences, in percent
sums() {
	for d in "${@:4}"; do echo "1000 $((1000 + 10 * d)) $((1000 + 10 * d)) 1000"; done > "$COST/times"
	cost -s "$COST/times" "$3" > "$tmp/out" 2>&1 || true
	result "$([[ $(cat "$tmp/out") = "$2" ]]; echo $?)" "$1"
}
# Half of the interval is t s / sqrt(n): 2.776 * 1.581 / sqrt(5), 2.262 * 3.028 / sqrt(10), and
# 2.045 * 0.5085 / sqrt(30), where the table's t is 0.3 % more than the expansion's for n = 5.
sums cost-of-five-turns '5 +3.00 1.96 wide' 3 1 2 3 4 5
sums cost-of-five-turns-may-be-narrow '5 +3.00 1.96 narrow' 4 1 2 3 4 5
sums cost-of-ten-turns '10 +5.50 2.17 wide' 1 1 2 3 4 5 6 7 8 9 10
sums cost-of-thirty-turns '30 +0.50 0.19 narrow' 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1
sums cost-that-is-a-gain '5 -2.00 0.00 narrow' 1 -2 -2 -2 -2 -2
# A turn whose runs become longer and longer, by the same each time
printf '1000 1100 1200 1300\n%.0s' 1 2 3 4 5 > "$COST/times"
refuse cost-without-drift '5 +0.00 0.00 narrow' bash -c "'$harness/cost' -s '$COST/times'; exit 1"

fake "$COST/bin/perf-unwind" << 'END'
[[ ! -e $COST/fails ]] || { echo 'no permission'; exit 1; }
echo "$*" > "$COST/arguments"
while (($#)); do
	case $1 in
	--control) IFS=, read -r ctl ack <<< "${2#fifo:}" ;;
	-o) data=$2 ;;
	esac
	shift
done
exec 3<> "$ctl" 4<> "$ack"
read -r word <&3
echo "$word" >> "$COST/order"
printf 'ack\n\0' >&4
head -c 60000 /dev/zero > "$data"
read -r word <&3
echo "$word" >> "$COST/order"
END
turns() { sed 1d "$COST/order" | xargs; }
: > "$COST/order"
MODES=defer pass cost-of-a-load cost "echo run >> '$COST/order'; sleep 0.01"
block=$(sed -n '/^What tracing costs/,$p' "$tmp/out")
pass cost-takes-turns grep -qE '^(run enable run run stop run ?){5,}$' <(turns)
pass cost-records-the-whole-system grep -q -- '^record --call-graph defer -F 99 -a -D -1 ' "$COST/arguments"
pass cost-prints-a-row grep -qE '^\| defer \| [-+][0-9.]+ % \| [0-9.]+( \(wider than half of the goal, 1 %\))? \| [0-9]+ \| [1-9][0-9]+ \|$' <<< "$block"
pass cost-says-what-ran grep -q "sleep 0.01 (" <<< "$block"
MODES=nothing pass cost-of-nothing cost 'sleep 0.01'
block=$(cat "$tmp/out")
pass cost-of-nothing-has-no-bytes grep -qE '^\| nothing \| .* \| +\|$' <<< "$block"
: > "$COST/fails"
MODES=defer refuse cost-where-recording-fails 'has ended, log:' cost true
rm "$COST/fails"
refuse cost-of-a-load-that-fails 'the load fails, log:' cost 'echo no; false'
refuse cost-without-a-load "which load? make cost WORK='command'" cost
MODES=lbr refuse cost-in-another-mode 'no mode lbr' cost true
rm "$COST/bin/perf-unwind"
MODES=defer refuse cost-without-perf-unwind 'defer is left out: there is no perf-unwind' cost true
unset COST
