#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Deferred user callchains are merged

# All perf.data files are made up, so this needs no support by the kernel, and the
# expectations are exact.

set -e

shelldir=$(dirname "$0")
generator="${shelldir}/lib/deferred_callchain_data.py"

PYTHON=${PYTHON:-$(command -v python3 || true)}
if [ -z "${PYTHON}" ]
then
  echo "[Skip] no python3 to write perf.data files"
  exit 2
fi

tmpdir=$(mktemp -d /tmp/__perf_test.deferred.XXXXX)
err=0

cleanup() {
  rm -rf "${tmpdir}"
  trap - EXIT TERM INT
}

trap_cleanup() {
  echo "Unexpected signal in ${FUNCNAME[1]}"
  cleanup
  exit 1
}
trap trap_cleanup EXIT TERM INT

# The file for a case of the generator
data() {
  local path="${tmpdir}/$1.data"

  [ -e "${path}" ] || "${PYTHON}" "${generator}" "$1" "${path}"
  echo "${path}"
}

# One line per sample: what was asked for, then the callchain, without symbols
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

test_pipe() {
  check "script, pipe" "${merged}" "$(script -i - < "$(data merge-pipe)")"
  check "script, pipe saved to a file" "${merged}" "$(script -i "$(data merge-pipe)")"
  check "inject, pipe to pipe" "${merged}" \
	"$(perf inject < "$(data merge-pipe)" 2>/dev/null | script -i -)"
}

test_missing() {
  check "script, missing records" \
"ten 10 [000] 0.000000100: K100
ten 10 [000] 0.000000110: 401200 401300
thirty 30 [000] 0.000000130: K200
twenty 20 [000] 0.000000150: K100 K200
twenty 20 [000] 0.000000160: 501100" "$(script -i "$(data missing)")"
  check "figures, missing records" \
"5 samples, 1 records, 1 merged, 4 without record (2 lost, 2 still in the kernel at the end)" \
	"$(stats "$(data missing)")"
  check "figures, only one CPU recorded" \
"2 samples, 1 records, 1 merged, 1 without record (1 lost or on a CPU that was not recorded)" \
	"$(stats "$(data one-cpu)")"
}

test_mismatch() {
  check "script, mismatch" \
"ten 10 [000] 0.000000100: K100
twenty 20 [000] 0.000000130: K100 501100 501200
twenty 20 [000] 0.000000160: K200 501100 501200" "$(script -i "$(data mismatch)")"
  check "figures, mismatch" \
"3 samples, 4 records, 2 merged, 1 without record (1 lost)" "$(stats "$(data mismatch)")"
  check "script, records without thread" \
"ten 10 [000] 0.000000100: K100 401100
twenty 20 [000] 0.000000110: K100 501100
ten 10 [000] 0.000000140: K200" "$(script -i "$(data no-id-all)")"
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
ten 10 [000] 0.000000150: K100
ten 10 [000] 0.000000170: 401300
ten 10 [000] 0.000000190:" "$(script -i "$(data invalid)")"
  check "figures, invalid records" \
"4 samples, 4 records, 4 merged (1 empty), 0 without record, 6 invalid records ignored" \
	"$(stats "$(data invalid)")"
}

report_chains() {
  perf report -i "$1" --stdio --no-children --sort comm -g folded,address,caller,count 2>/dev/null |
	grep "^[0-9].*0x" | sed 's/0xf*81000/K/g; s/0x//g' | LC_ALL=C sort
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

  if perf inject --merge-callchains -i "${file}" > /dev/null 2>&1
  then
    echo "inject, merge to a pipe must be refused [Failed]"
    err=1
  fi
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
}

test_script
test_pipe
test_missing
test_mismatch
test_order
test_invalid
test_report
test_inject
test_json
test_python

cleanup
exit ${err}
