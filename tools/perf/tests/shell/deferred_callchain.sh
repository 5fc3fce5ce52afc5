#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Deferred user callchains are merged

# All perf.data files are made up, so this needs no support by the kernel, and the
# expectations are exact.

set -e

# shellcheck source=lib/tmpdir.sh
. "$(dirname "$0")/lib/tmpdir.sh"

generator="${libdir}/deferred_callchain_data.py"

PYTHON=${PYTHON:-$(command -v python3 || true)}
[ -n "${PYTHON}" ] || skip "no python3 to write perf.data files"

# The file for a case of the generator
data() {
  local path="${tmpdir}/$1.data"

  [ -e "${path}" ] || "${PYTHON}" "${generator}" "$1" "${path}"
  echo "${path}"
}

# One line per sample: the requested fields, then the callchain, without symbols
fold() {
  awk 'NF == 0 { if (line != "") print line; line = ""; next }
       { gsub(/\[unknown\]/, ""); gsub(/^[ \t]+|[ \t]+$/, ""); gsub(/[ \t]+/, " ")
         sub(/ff*81000/, "K"); line = line == "" ? $0 : line " " $0 }
       END { if (line != "") print line }'
}

script() {
  perf script -F comm,tid,cpu,time,ip --ns "$@" 2>/dev/null | fold
}

stats() {
  perf report --stats -i "$1" 2>/dev/null | sed -n 's/^Deferred callchains: //p'
}

# check <what> <expected> <actual>
check() {
  if [ "$2" = "$3" ]
  then
    echo "$1 [Success]"
    return
  fi
  echo "$1 [Failed]"
  diff <(echo "$2") <(echo "$3") || true
  err=1
}

merged="ten 10 [000] 0.000000100: K100 K200 401100 401200
twenty 20 [001] 0.000000110: K100 501100 501200
ten 10 [000] 0.000000120: K200 401100 401200
ten 10 [000] 0.000000140: K100 501100 501200
ten 10 [000] 0.000000160: K100 401100 401200
ten 10 [000] 0.000000170: 401100 401300
twenty 20 [001] 0.000000190: K100 K200 501200"

raw="ten 10 [000] 0.000000100: K100 K200 300000001 (cookie)
twenty 20 [001] 0.000000110: K100 300000002 (cookie)
ten 10 [000] 0.000000120: K200 300000001 (cookie)
ten 10 [001] 0.000000130: DEFERRED CALLCHAIN [cookie: 300000001] 401100 401200
ten 10 [000] 0.000000140: K100 501100 501200
twenty 20 [001] 0.000000150: DEFERRED CALLCHAIN [cookie: 300000002] 501100 501200
ten 10 [000] 0.000000160: K100 300000001 (cookie)
ten 10 [000] 0.000000170: 500000001 (cookie)
ten 10 [000] 0.000000180: DEFERRED CALLCHAIN [cookie: 500000001] 401100 401300
twenty 20 [001] 0.000000190: K100 K200 700000001 (cookie)
twenty 20 [000] 0.000000200: DEFERRED CALLCHAIN [cookie: 700000001] 501200"

all_merged="6 samples, 4 records, 6 merged, 0 without record"

test_script() {
  local kind

  for kind in merge merge-one-event merge-raw merge-big-endian
  do
    check "script, ${kind}" "${merged}" "$(script -i "$(data ${kind})")"
    check "figures, ${kind}" "${all_merged}" "$(stats "$(data ${kind})")"
  done

  check "script, raw view" "${raw}" "$(script --no-merge-callchains -i "$(data merge)")"
}

test_help() {
  local tool

  for tool in record top trace
  do
    check "help of perf ${tool}" "1" \
	  "$(perf ${tool} -h 2>&1 | grep -c "defer: the task unwinds its user stack" || true)"
  done
}

# Longer attributes can be read unless there is something in them
test_newer() {
  local kind

  for kind in newer newer-pipe newer-big-endian
  do
    check "script, ${kind}" "${merged}" "$(script -i "$(data ${kind})")"
  done
  perf inject --merge-callchains -i "$(data newer)" -o "${tmpdir}/newer" 2>/dev/null
  check "inject, newer" "${merged}" "$(script -i "${tmpdir}/newer")"
  check "script, newer, through two pipes" "${merged}" \
	"$(perf inject < "$(data newer-pipe)" 2>/dev/null | script -i -)"
  for kind in newer-unknown newer-unknown-pipe
  do
    check "script, ${kind}" "" "$(script -i "$(data ${kind})")"
    check "script, ${kind}, message" "1" \
	  "$(perf script -i "$(data ${kind})" 2>&1 | grep -c "Read the data with that perf")"
  done
}

test_pipe() {
  check "script, pipe" "${merged}" "$(script -i - < "$(data merge-pipe)")"
  check "script, pipe saved to a file" "${merged}" "$(script -i "$(data merge-pipe)")"
  check "inject, pipe to pipe" "${merged}" \
	"$(perf inject < "$(data merge-pipe)" 2>/dev/null | script -i -)"
}

test_missing() {
  check "script, missing records" \
"ten 10 [000] 0.000000100: K100 0 [no user stack]
ten 10 [000] 0.000000110: 401200 401300
thirty 30 [000] 0.000000130: K200 0 [no user stack]
twenty 20 [000] 0.000000150: K100 K200 0 [no user stack]
twenty 20 [000] 0.000000160: 501100 0 [no user stack]" "$(script -i "$(data missing)")"
  check "figures, missing records" \
"5 samples, 1 records, 1 merged, 4 without record (2 lost, 2 still in the kernel at the end)" \
	"$(stats "$(data missing)")"
  check "figures, only one CPU recorded" \
"2 samples, 1 records, 1 merged, 1 without record (1 lost or on a CPU that was not recorded)" \
	"$(stats "$(data one-cpu)")"
}

# Files of callers in records that come late: merged, and in the output of perf inject
test_build_ids() {
  local name
  PYTHONDONTWRITEBYTECODE=1 "${PYTHON}" - "$(dirname "${generator}")" "${tmpdir}/ids.data" << 'END'
import sys
sys.path.insert(0, sys.argv[1])
from deferred_callchain_data import *
data = Data(dummy=True)
pid = 5000000
data.comm(pid, 'prog')
for start, path in ((U1, b'innermost'), (V1, b'caller'), (C1, b'cookie')):
    data.event(10, MISC_USER | 1 << 14,
               data.pack('IIQQQ', pid, pid, start & ~0xfff, 0x1000, 0) +
               data.pack('BBH', 20, 0, 0) + bytes([path[0]] * 20) + data.pack('II', 5, 2) +
               (b'/nowhere/' + path).ljust(24, b'\0') + data.trailer(pid, 2, 0))
data.user_hit(pid, 100, C1, U1)
data.record(pid, 110, C1, U1, V1)
data.write(sys.argv[2])
END
  perf inject -i "${tmpdir}/ids.data" -o "${tmpdir}/ids-injected.data"
  for name in ids ids-injected
  do
    check "build IDs of callers, ${name}" "caller innermost" \
      "$(perf buildid-list --with-hits -i "${tmpdir}/${name}.data" 2> /dev/null |
         sed -n 's,^.*/nowhere/,,p' | sort | xargs)"
  done
}

# Each reason that is printed is in the manual page, if that is at hand
test_reasons() {
  local source reasons reason text
  source="$(dirname "$0")/../../util/deferred-summary.c"
  [ -e "${source}" ] || return 0
  text=$(tr -s '[:space:]' ' ' < "$(dirname "$0")/../../Documentation/perf-record.txt")
  reasons=$(sed -n '/^static const char \*reason_text/,/^}/s/.*return "\(.*\)";/\1/p
    s/.*"\(before the first frame: [^"]*\)".*/\1/p; s/.*"\(in other files\)".*/\1/p' "${source}")
  check "reasons, number" 13 "$(echo "${reasons}" | wc -l)"
  while read -r reason
  do
    case ${text} in
    *"${reason}"*) ;;
    *) check "reasons, in perf-record.txt" "${reason}" "" ;;
    esac
  done <<< "${reasons}"
}

# The text of the warning alone
warning() {
  perf script -i "$1" 2>&1 > /dev/null | sed '/^Warning:$/d; /^$/d'
}

test_warning() {
  check "warning, none" "" "$(warning "$(data merge)")"
  check "warning, lost" \
"40 % of samples have no user stack (2 of 5): the data has no record of it." \
	"$(warning "$(data missing)")"
  check "warning, buffers" \
"Processed 2 events and lost 1 chunks!
Check IO/CPU overload!
2 % of samples have no user stack (2 of 100): buffers overflowed, try a larger -m." \
	"$(warning "$(data lost-2)" | sed "s/Processed [0-9]*/Processed 2/")"
  check "warning, rounded" \
"17 % of samples have no user stack (1 of 6): the data has no record of it." \
	"$(warning "$(data lost-1-of-6)")"
  check "warning, other CPU" \
"50 % of samples have no user stack (1 of 2): \
their tasks left the kernel on CPUs that were not recorded, try without -C." \
	"$(warning "$(data one-cpu)")"
  check "warning, not for a few" "" "$(warning "$(data few-lost)")"
  check "warning, not for what is still in the kernel" "" "$(warning "$(data blocked)")"
  check "warning, damaged" \
"6 records with user stacks are not valid and were ignored, the data is damaged." \
	"$(warning "$(data invalid)")"
}

test_mismatch() {
  check "script, mismatch" \
"ten 10 [000] 0.000000100: K100 0 [no user stack]
twenty 20 [000] 0.000000130: K100 501100 501200
twenty 20 [000] 0.000000160: K200 501100 501200" "$(script -i "$(data mismatch)")"
  check "figures, mismatch" \
"3 samples, 4 records, 2 merged, 1 without record (1 lost)" "$(stats "$(data mismatch)")"
  check "script, records without thread" \
"ten 10 [000] 0.000000100: K100 401100
twenty 20 [000] 0.000000110: K100 501100
ten 10 [000] 0.000000140: K200 0 [no user stack]" "$(script -i "$(data no-id-all)")"
}

test_order() {
  check "script, order" \
"before 10 [000] 0.000000100: K100 401100
after 10 [000] 0.000000120: K200 501100" "$(script -i "$(data order)")"
}

test_invalid() {
  check "script, invalid records" \
"ten 10 [000] 0.000000100: K100 401100
ten 10 [000] 0.000000130: K100 401100
ten 10 [000] 0.000000150: K100 0 [no user stack]
ten 10 [000] 0.000000170: 401300 0 [no user stack]
ten 10 [000] 0.000000190:" "$(script -i "$(data invalid)")"
  check "figures, invalid records" \
"4 samples, 4 records, 4 merged (1 empty), 0 without record, 6 invalid records ignored" \
	"$(stats "$(data invalid)")"
}

# The callchains of cut(), from the first one on with the state that is known
cut_samples() {
  local first="$1"

  echo "ten 10 [000] 0.000000100: ${first}
ten 10 [000] 0.000000120: complete 401100 401200 401300
ten 10 [000] 0.000000140: cut K100 K200 401100 401200 0 [cut]
ten 10 [000] 0.000000160: complete K100 401100 401200
ten 10 [000] 0.000000170: cut K100 401100 0 [cut]
twenty 20 [000] 0.000000180: cut 501100 0 [no user stack]
twenty 20 [000] 0.000000190: cut K100 0 [no user stack]
ten 10 [000] 0.000000200: cut K200 0 [no user stack]"
}

script_complete() {
  perf script -F comm,tid,cpu,time,ip,complete --ns "$@" 2>/dev/null | fold
}

test_cut() {
  local kind out="${tmpdir}/cut.injected"
  local figures="6 samples, 4 records, 4 merged (1 complete, 1 empty), 2 without record"
  local unknown="- K100 401100 401200" known="cut K100 401100 401200 0 [cut]"

  for kind in cut cut-big-endian
  do
    check "complete and cut, ${kind}" "$(cut_samples "${unknown}")" \
	  "$(script_complete -i "$(data ${kind})")"
  done
  check "complete and cut, pipe" "$(cut_samples "${unknown}")" \
	"$(script_complete -i - < "$(data cut-pipe)")"
  check "complete and cut, known from the header" "$(cut_samples "${known}")" \
	"$(script_complete -i "$(data cut-known)")"
  check "complete and cut, figures" \
	"${figures} (1 lost, 1 still in the kernel at the end)" "$(stats "$(data cut)")"
  check "complete and cut, the raw view has no marks" "0" \
	"$(perf script --no-merge-callchains -F ip -i "$(data cut-known)" 2>/dev/null |
	   grep -c "\[cut\]\|\[no user stack\]" || true)"
  check "complete and cut, with other fields" \
"                0 [cut] ([unknown])
                0 [cut] ([unknown])" \
	"$(perf script -F ip,sym,dso -i "$(data cut)" 2>/dev/null | grep "\[cut\]" |
	   sed 's/\t/ /')"

  perf inject --merge-callchains -i "$(data cut)" -o "${out}" 2>/dev/null
  check "inject, complete and cut" "$(cut_samples "${unknown}")" "$(script_complete -i "${out}")"
  check "inject, no figures" "# user stacks : put into their samples by perf inject" \
	"$(perf report --header-only -i "${out}" 2>/dev/null | grep "^# user stacks")"
  perf inject -i "${out}" -o "${out}.again" 2>/dev/null
  check "inject, twice" "$(cut_samples "${unknown}")" "$(script_complete -i "${out}.again")"
  perf inject --merge-callchains -i "$(data cut-known)" -o "${out}" 2>/dev/null
  check "inject, known from the header" "$(cut_samples "${known}")" "$(script_complete -i "${out}")"

  check "ordinary events have no such bits" \
"ten 10 [000] 0.000000100: - K100 401100
ten 10 [000] 0.000000110: - K100 401100
ten 10 [000] 0.000000120: - K100 401100" "$(script_complete -i "$(data other-bits)")"
}

test_unchecked() {
  local out="${tmpdir}/unchecked.injected"
  local samples="\
ten 10 [000] 0.000000100: unchecked K100 401100 401300
ten 10 [000] 0.000000120: complete K100 401100 401200
ten 10 [000] 0.000000140: cut K100 0 [no user stack]
ten 10 [000] 0.000000160: unchecked K100 401100"

  check "unchecked" "${samples}" "$(script_complete -i "$(data unchecked)")"
  check "unchecked, figures" \
"3 samples, 3 records, 3 merged (1 complete, 1 by unchecked frame pointers, 1 empty), \
0 without record" "$(stats "$(data unchecked)")"
  perf inject --merge-callchains -i "$(data unchecked)" -o "${out}" 2>/dev/null
  check "unchecked, inject" "${samples}" "$(script_complete -i "${out}")"
}

summary="# user stacks : 978 of 1001 complete (97.7%); the others end
#          6  at the outermost frame, by frame pointers that nothing checked
#          5  /lib/?[2Jlibfoo.so: no unwind rule for the code there
#          3  [no file]: no return address where one should be
#          2  /bin/bar: deeper than the limit of 127 frames
#          4  in other files
#          1  before the first frame: there was no stack, or it could not be read
#          2  before the first frame: lost, or still in the kernel at the end
#             (frame pointers are kept by java -XX:+PreserveFramePointer, \
node --interpreted-frames-native-stack, erl +JPperf true, MONO_DEBUG=disable_omit_fp mono)"

header_summary() {
  perf report --header-only -i "$1" 2>/dev/null | sed -n '/^# user stacks/,/^# [a-z=]/p' |
	grep "^# user stacks\|^#  "
}

test_header() {
  local kind out="${tmpdir}/header.injected"

  check "header" "${summary}" "$(header_summary "$(data cut-known)")"
  check "header, nothing said of what is not known" "0" \
	"$(perf report --header-only -i "$(data cut-known)" 2>&1 |
	   grep -c "unknown feature" || true)"
  check "header, other sections" "# hostname : host" \
	"$(perf report --header-only -i "$(data cut-known)" 2>/dev/null | grep "^# hostname")"
  perf inject -i "$(data cut-known)" -o "${out}" 2>/dev/null
  check "header, kept by inject" "${summary}" "$(header_summary "${out}")"
  perf inject --merge-callchains -i "$(data cut-known)" -o "${out}" 2>/dev/null
  check "header, kept by inject --merge-callchains" \
"${summary}
# user stacks : put into their samples by perf inject" "$(header_summary "${out}")"
  check "header, none" "" "$(header_summary "$(data cut)")"
  for kind in bad-sum bad-sum-low bad-magic bad-version bad-flags
  do
    check "header, ${kind}" "" "$(header_summary "$(data ${kind})")"
    check "header, ${kind}, events" "${merged}" "$(script -i "$(data ${kind})")"
  done
}

report_chains() {
  perf report -i "$1" --stdio --no-children --sort comm -g folded,address,caller,count 2>/dev/null |
	grep "^[0-9].*0x" | sed 's/0xf*81000/K/g; s/0x//g' | LC_ALL=C sort
}

# The callchains of cut()
report_cut() {
  perf report -i "${file}" --stdio --no-children --sort comm -g "$1" 2>/dev/null |
	grep "^[0-9].*\(0x\|\[\)" | sed 's/0xf*81000/K/g; s/0x//g'
}

test_report() {
  local file

  file=$(data merge)
  check "report, event counts" "CALLCHAIN_DEFERRED 4
SAMPLE 7" "$(perf report --stats -i "${file}" 2>/dev/null |
	   awk '/DEFERRED events|SAMPLE events.*%/ { print $1, $3 }' | sort)"
  check "report, dump" "4" \
	"$(perf report -D -i "${file}" 2>/dev/null |
	   grep -c "_CALLCHAIN_DEFERRED(IP, 0x2): [12]0/[12]0: 0x[357]0000000[12]$")"
  check "report, line for the user" "# Deferred callchains: ${all_merged}" \
	"$(perf report --stdio -i "${file}" 2>/dev/null | grep "^# Deferred")"
  check "report, callchains" \
"1 401200;401100;K100
1 401200;401100;K200
1 401200;401100;K200;K100
1 401300;401100
1 501200;501100;K100
1 501200;501100;K100
1 501200;K200;K100" "$(report_chains "${file}")"
  file=$(data cut)
  check "report, cut callchains" \
"1 401300;401200;401100
1 [cut];401100;K100
1 [cut];401200;401100;K200;K100
1 [no user stack];501100
1 [no user stack];K100
1 [no user stack];K200
2 401200;401100;K100" "$(report_cut folded,address,caller,count | LC_ALL=C sort)"
  check "report, cut callchains, callee first" "1 K100;401100;[cut]
1 K100;K200;401100;401200;[cut]" \
	"$(report_cut folded,address,callee,count | grep "\[cut\]" | LC_ALL=C sort)"
  check "report, cut callchains, flat" \
"[cut] 401200 401100 K200 K100 -- [cut] 401100 K100 12.50%" \
	"$(perf report -i "${file}" --stdio --no-children --sort comm -g flat,address,caller \
	     2>/dev/null | grep -A 4 "\[cut\]" | sed 's/0xf*81000/K/; s/0x//' | xargs)"
  check "report, cut callchains, graph" "|--25.00%--[cut]" \
	"$(perf report -i "${file}" --stdio --no-children --sort comm -g graph,address,caller,0 \
	     2>/dev/null | grep "\[cut\]" | xargs)"
  check "report, cut callchains, accumulated" \
"25.00% 0.00% [.] [cut]
37.50% 0.00% [.] [no user stack]" \
	"$(perf report -i "${file}" --stdio --children --sort sym -g none 2>/dev/null |
	   grep "\[cut\]\|\[no user stack\]" | xargs -L 1 | sort)"
  check "report, no marks where only symbols are wanted" "0" \
	"$(perf report -U -i "${file}" --stdio --children --sort sym 2>/dev/null |
	   grep -c "\[cut\]\|\[no user stack\]" || true)"
  file=$(data merge)
  check "evlist, attributes" "1 1" \
	"$(perf evlist -v -i "${file}" |
	   awk '/defer_callchain: 1/ { c++ } /defer_output: 1/ { o++ } END { print c, o }')"
}

test_inject() {
  local file out="${tmpdir}/injected.data"

  file=$(data merge)
  perf inject -i "${file}" -o "${out}"
  check "inject, passes all on" "${raw}" "$(script --no-merge-callchains -i "${out}")"
  check "inject, can be merged after it" "${merged}" "$(script -i "${out}")"

  perf inject -b -i "${file}" -o "${out}" 2>/dev/null
  check "inject, build IDs" "${raw}" "$(script --no-merge-callchains -i "${out}")"

  perf inject --merge-callchains -i "${file}" -o "${out}" 2> "${tmpdir}/err"
  check "inject, merge" "${merged}" "$(script --no-merge-callchains -i "${out}")"
  check "inject, merge, figures" "[ perf inject: Deferred callchains: ${all_merged} ]" \
	"$(cat "${tmpdir}/err")"
  check "inject, merge, attributes" "0" "$(perf evlist -v -i "${out}" | grep -c defer || true)"

  perf inject --merge-callchains -i "$(data missing)" -o "${out}" 2>/dev/null
  check "inject, merge, nothing dropped" "$(script -i "$(data missing)")" "$(script -i "${out}")"

  perf inject -b --merge-callchains -i "${file}" -o "${out}" 2>/dev/null
  check "inject, merge and build IDs" "${merged}" "$(script --no-merge-callchains -i "${out}")"
  perf inject --buildid-all --merge-callchains -i "${file}" -o "${out}" 2>/dev/null
  check "inject, merge and all build IDs" "${merged}" \
	"$(script --no-merge-callchains -i "${out}")"
  if perf inject -s --merge-callchains -i "${file}" -o "${out}" 2> "${tmpdir}/err" ||
     ! grep -q "Run perf inject twice" "${tmpdir}/err"
  then
    echo "inject, merge and sched-stat must be refused with a hint [Failed]"
    err=1
  fi
}

# No header can say that callchains have been merged
test_inject_pipe() {
  local file pipe="${tmpdir}/merged.pipe" known

  file=$(data merge)
  perf inject --merge-callchains -i "${file}" 2>/dev/null > "${pipe}"
  check "inject, merge to a pipe" "${merged}" "$(script --no-merge-callchains -i - < "${pipe}")"
  check "inject, merge to a pipe, attributes" "0" \
	"$(perf evlist -v -i "${pipe}" 2>/dev/null | grep -c "defer_callchain" || true)"
  perf inject --merge-callchains < "$(data merge-pipe)" 2>/dev/null > "${pipe}"
  check "inject, merge from pipe to pipe" "${merged}" \
	"$(script --no-merge-callchains -i - < "${pipe}")"
  perf inject -b --merge-callchains < "$(data merge-pipe)" 2>/dev/null > "${pipe}"
  check "inject, merge from pipe to pipe, build IDs" "${merged}" \
	"$(script --no-merge-callchains -i - < "${pipe}")"
  perf inject --merge-callchains -o "${pipe}.data" < "$(data merge-pipe)" 2>/dev/null
  check "inject, merge from a pipe" "${merged}" \
	"$(script --no-merge-callchains -i "${pipe}.data")"

  known="$(cut_samples "- K100 401100 401200")"
  perf inject --merge-callchains -i "$(data cut)" 2>/dev/null > "${pipe}"
  check "inject, merge to a pipe, complete and cut" "${known}" \
	"$(script_complete -i - < "${pipe}")"
  perf inject --merge-callchains -i "$(data deep)" 2>/dev/null > "${pipe}"
  check "inject, merge to a pipe, depth" "127 127 4018e0" "$(script_depth -i - < "${pipe}")"
}

test_json() {
  local file out="${tmpdir}/out.json"

  file=$(data merge)
  if ! perf data convert --to-json "${out}" -i "${file}" 2>/dev/null
  then
    echo "data convert [Skip] no JSON output"
    return
  fi
  check "data convert, JSON" \
"100 K100 K200 401100 401200
110 K100 501100 501200
120 K200 401100 401200
140 K100 501100 501200
160 K100 401100 401200
170 401100 401300
190 K100 K200 501200" \
	"$("${PYTHON}" -c '
import json, sys
for sample in json.load(open(sys.argv[1]))["samples"]:
    ips = [c["ip"][2:].replace("ffffffff81000", "K") for c in sample["callchain"]]
    print(sample["timestamp"], *ips)' "${out}")"
}

# The samples of a JSON file, without repetition
json_chains() {
  "${PYTHON}" -c '
import json, sys
for sample in json.load(open(sys.argv[1]))["samples"]:
    ips = [c["ip"][2:].replace("ffffffff81000", "K") for c in sample["callchain"]]
    print(sample["timestamp"], *ips)' "$1" | uniq
}

# Tools that compute with times get all samples in order, also those with late records
test_late() {
  local out="${tmpdir}/late.json" log="${tmpdir}/late.err"

  check "late, shown out of order by script" \
"twenty 20 [000] 2.000000000: K100 501100
twenty 20 [000] 3.000000000: K200 501100
ten 10 [000] 0.000000100: K100 401100 401200
twenty 20 [000] 5.000000000: K100 501200" "$(script -i - < "$(data late)")"
  if ! perf data convert --to-json "${out}" -i "$(data merge)" 2>/dev/null
  then
    echo "late, in order [Skip] no JSON output"
    return
  fi
  perf data convert --force --to-json "${out}" -i - < "$(data late)" 2>/dev/null || true
  check "late, in order" \
"100 K100 401100 401200
2000000000 K100 501100
3000000000 K200 501100
5000000000 K100 501200" "$(json_chains "${out}")"
  # A sample is given up after 256 MB
  "${PYTHON}" "${generator}" late-big /dev/stdout |
    perf data convert --force --to-json "${out}" -i - 2> "${log}" || true
  check "late by much, in order" \
"100 K100
2000000000 K100 501100
3000000000 K200 501100
5000000000 K100 501200" "$(json_chains "${out}")"
  check "late by much, warning" "1" \
	"$(grep -c "have no user stack (1 of 1): it came so long after them" "${log}" || true)"
}

# For each event that perf trace shows, how many frames there are and which marks
trace_frames() {
  awk '/fault/ { if (NR > 1) print nr mark; nr = 0; mark = ""; next }
       /\[(cut|no user stack)\]/ { mark = " " $1; next }
       { nr++ }
       END { print nr mark }' "$1"
}

test_trace() {
  local out="${tmpdir}/trace.out" log="${tmpdir}/trace.err"

  if ! perf check feature -q libtraceevent 2>/dev/null
  then
    echo "trace -i [Skip] perf was built without libtraceevent"
    return
  fi
  perf trace -i "$(data page-faults)" -o "${out}" 2> "${log}" || true
  check "trace -i" "4 3 3 3 3 2 3" "$(trace_frames "${out}" | xargs)"
  check "trace -i, line at the end" "[ perf trace: Deferred callchains: ${all_merged} ]" \
	"$(cat "${log}")"
  perf trace -i "$(data page-faults-cut)" -o "${out}" 2>/dev/null
  check "trace -i, marks" "3 3 4 [cut] 3 2 [cut] 1 [no 1 [no 1 [no" \
	"$(trace_frames "${out}" | xargs)"
}

test_python() {
  if ! perf check feature -q libpython 2>/dev/null
  then
    echo "python scripts [Skip] perf was built without libpython"
    return
  fi
  cat > "${tmpdir}/chains.py" <<EOF
def process_event(event):
    ips = ['%x' % c['ip'] for c in event['callchain']]
    print(event['sample']['time'], *[ip.replace('ffffffff81000', 'K') for ip in ips])
EOF
  check "python script" \
"100 K100 K200 401100 401200
110 K100 501100 501200
120 K200 401100 401200
140 K100 501100 501200
160 K100 401100 401200
170 401100 401300
190 K100 K200 501200" \
	"$(perf script -i "$(data merge)" -s "${tmpdir}/chains.py" 2>/dev/null)"

  cat > "${tmpdir}/names.py" <<EOF
def process_event(event):
    print(event['sample']['time'], *[c['sym']['name'] for c in event['callchain'] if 'sym' in c])
EOF
  check "python script, cut" \
"100
120
140 [cut]
160
170 [cut]
180 [no user stack]
190 [no user stack]
200 [no user stack]" "$(perf script -i "$(data cut)" -s "${tmpdir}/names.py" 2>/dev/null)"
  scripts="${PERF_EXEC_PATH:-$(perf --exec-path)}/scripts/python"
  if [ -e "${scripts}/stackcollapse.py" ]
  then
    check "python script, folded" \
"ten;[cut];[unknown];[unknown] 1
ten;[cut];[unknown];[unknown];[unknown];[unknown] 1" \
	  "$(perf script -i "$(data cut)" -s "${scripts}/stackcollapse.py" 2>/dev/null |
	     grep "\[cut\]" | LC_ALL=C sort)"
  fi
  if [ -e "${scripts}/gecko.py" ]
  then
    check "python script, gecko" "1 2" \
	  "$(perf script -i "$(data cut)" -s "${scripts}/gecko.py" -- \
	       --save-only="${tmpdir}/gecko" > /dev/null 2>&1
	     echo "$(grep -o "\[cut\] (in" "${tmpdir}/gecko" | wc -l)" \
		  "$(grep -o "\[no user stack\] (in" "${tmpdir}/gecko" | wc -l)")"
  fi
}

# How many kernel frames and user frames one callchain has, and the last one of it
depth() {
  awk '$1 ~ /^(0x)?ffffffff81/ { kernel++ } $1 ~ /^(0x)?40/ { user++ }
       NF > 0 { last = $1 } END { print kernel + 0, user + 0, last }'
}

script_depth() {
  perf script -F ip "$@" 2>/dev/null | depth
}

report_depth() {
  perf report --stdio --no-children --sort comm -g "flat,address,$1,count" "${@:2}" \
	2>/dev/null | grep -v "^#" | depth
}

# Each part has its own limit; all readers must show both
test_depth() {
  local file order out="${tmpdir}/deep.injected"

  file=$(data deep)
  perf inject --merge-callchains -i "${file}" -o "${out}" 2>/dev/null
  for file in "${file}" "${out}"
  do
    check "depth, script, ${file##*/}" "127 127 4018e0" "$(script_depth -i "${file}")"
    check "depth, script with a limit, ${file##*/}" "3 3 401120" \
	  "$(script_depth --max-stack 3 -i "${file}")"
    for order in caller callee
    do
      check "depth, report, ${order}, ${file##*/}" "127 127" \
	    "$(report_depth ${order} -i "${file}" | cut -d " " -f 1,2)"
      check "depth, report with a limit, ${order}, ${file##*/}" "3 3" \
	    "$(report_depth ${order} --max-stack 3 -i "${file}" | cut -d " " -f 1,2)"
    done
  done
  check "depth, script, raw view" "127 127 4018e0" \
	"$(script_depth --no-merge-callchains -i "$(data deep)")"

  # A chain that was not deferred has one limit, as before
  file=$(data deep-in-place)
  check "depth, script, in place" "60 60 4014b0" "$(script_depth -i "${file}")"
  check "depth, script with a limit, in place" "60 11 4011a0" \
	"$(script_depth --max-stack 71 -i "${file}")"
  check "depth, report with a limit, in place" "10 60" \
	"$(report_depth caller --max-stack 70 -i "${file}" | cut -d " " -f 1,2)"

  # Recorded with a larger kernel.perf_event_max_stack than there is here
  for file in "$(data deeper)" "$(data deeper-in-place)"
  do
    check "depth, script, ${file##*/}" "510 510 4030d0" "$(script_depth -i "${file}")"
    for order in caller callee
    do
      check "depth, report, ${order}, ${file##*/}" "510 510" \
	    "$(report_depth ${order} -i "${file}" | cut -d " " -f 1,2)"
    done
  done
}

test_help
test_script
test_newer
test_pipe
test_depth
test_missing
test_reasons
test_build_ids
test_warning
test_mismatch
test_order
test_invalid
test_cut
test_unchecked
test_header
test_report
test_inject
test_inject_pipe
test_json
test_late
test_trace
test_python

cleanup
exit ${err}
