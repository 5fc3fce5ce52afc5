#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# perf record --call-graph fp,defer

set -e

shelldir=$(dirname "$0")
# shellcheck source=lib/perf_has_symbol.sh
. "${shelldir}"/lib/perf_has_symbol.sh

skip_test_missing_symbol leaf

# shellcheck source=lib/tmpdir.sh
. "${shelldir}"/lib/tmpdir.sh

# Built with frame pointers: leaf() loops, called by parent(), called by leafloop()
workload=(perf test -w leafloop)
warning="This kernel does not support deferred callchains"
# Only tables that are asked for here. The workload has frame pointers, and without a
# service each command would make tables of its own.
PERF_CONFIG="${tmpdir}/settings"
export PERF_CONFIG
printf '[record]\n\tunwind-tables = false\n' > "${PERF_CONFIG}"
data="${tmpdir}/perf.data"
supported=false
workload_pid=""
paranoid=""
in_place=""

at_end() {
  [ -z "${paranoid}" ] || echo "${paranoid}" > /proc/sys/kernel/perf_event_paranoid
  [ -z "${in_place}" ] || echo "${in_place}" > /proc/sys/kernel/unwind_in_place
  [ -z "${workload_pid}" ] || kill -KILL "${workload_pid}" 2>/dev/null || true
}

success() {
  echo "$1 [Success]"
}

failed() {
  echo "$1 [Failed${2:+ $2}]"
  [ ! -e "${log}" ] || tail -n 20 "${log}"
  err=1
}

# check <what> <expected> <actual>
check() {
  if [ "$2" = "$3" ]
  then
    success "$1"
  else
    failed "$1" "expected '$2', got '$3'"
  fi
}

record() {
  rm -f "${data}"
  perf record -o "${data}" "$@" > /dev/null 2> "${log}"
}

# The first of the samples' callchains that start in leaf() but don't go the right
# way, or the number of good ones
leaf_chains() {
  perf script -F ip,sym "$@" 2>/dev/null | awk '
	NF == 0 { if (n && f[1] == "leaf") {
			chain = f[1] " " f[2] " " f[3]
			if (chain != "leaf parent leafloop" && bad == "") bad = chain
			good++ }
		  n = 0; next }
	{ f[++n] = $2 }
	END { if (bad != "") print bad; else print (good > 100) ? "ok" : "only " good + 0 }'
}

# Every sample with a cookie must have got its callchain
all_merged() {
  perf report --stats -i "${data}" 2>/dev/null | awk '
	/^Deferred callchains:/ {
		seen = 1
		if ($3 > 0 && $3 == $7 && /, 0 without record$/) print "ok"; else print }
	END { if (!seen) print "no deferred callchains" }'
}

attr_bits() {
  perf evlist -v -i "${data}" 2>/dev/null | awk '
	/defer_callchain: 1/ { c++ } /defer_output: 1/ { o++ } END { print c + 0, o + 0 }'
}

test_support() {
  if ! record --call-graph fp,defer -e task-clock -c 1000000 "${workload[@]}"
  then
    skip "can't record task-clock with callchains"
  fi
  if [ "$(attr_bits)" != "0 0" ]
  then
    supported=true
  fi
}

# Recording must go on as if only "fp" had been asked for, but not tacitly
check_fallback() {
  check "$1, warning given once" "1" "$(grep -c "${warning}" "${log}" || true)"
  check "$1, no deferred callchains" "0 0" "$(attr_bits)"
  check "$1, callchains taken in place" "ok" "$(leaf_chains -i "${data}")"
}

# Make this kernel refuse the two bits, as an older one does
test_missing_support() {
  cat > "${tmpdir}/refuse.c" <<EOF
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/syscall.h>

long syscall(long nr, ...)
{
	long (*next)(long, ...) = dlsym(RTLD_NEXT, "syscall");
	long arg[6];
	va_list ap;
	int i;

	va_start(ap, nr);
	for (i = 0; i < 6; i++)
		arg[i] = va_arg(ap, long);
	va_end(ap);

	if (nr == SYS_perf_event_open && ((uint64_t *)arg[0])[5] >> 38) {
		errno = EINVAL;
		return -1;
	}
	return next(nr, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}
EOF
  if ! cc -shared -fPIC -o "${tmpdir}/refuse.so" "${tmpdir}/refuse.c" 2>/dev/null
  then
    echo "missing support, made up [Skip] no C compiler"
    return
  fi
  if ! LD_PRELOAD="${tmpdir}/refuse.so" \
	record --call-graph fp,defer -e task-clock,cpu-clock -c 1000000 "${workload[@]}"
  then
    failed "missing support, made up" "record"
    return
  fi
  check_fallback "missing support, made up"
}

test_task() {
  record --call-graph fp,defer -e task-clock -c 1000000 "${workload[@]}"
  check "record, one event has both bits" "1 1" "$(attr_bits)"
  check "record, all merged" "ok" "$(all_merged)"
  check "script" "ok" "$(leaf_chains -i "${data}")"
  check "line at the end of record" "1" \
	"$(grep -c "^\[ perf record: Deferred callchains: .* 0 without record \]" "${log}" || true)"

  # The data is not read a second time for that, but can be later
  record -B --call-graph fp,defer -e task-clock -c 1000000 "${workload[@]}"
  check "record without build IDs, line at the end" "1" \
	"$(grep -c "^\[ perf record: Deferred callchains: not counted with -B" "${log}" || true)"
  check "record without build IDs, all merged" "ok" "$(all_merged)"
}

test_events() {
  record --call-graph fp,defer -e '{task-clock,cpu-clock},context-switches' -c 1000000 \
	"${workload[@]}"
  check "three events, all deferred, one output" "3 1" "$(attr_bits)"
  check "three events, all merged" "ok" "$(all_merged)"
  check "three events, script" "ok" "$(leaf_chains -i "${data}")"
}

# A group that is read together is not inherited, so its events see no children
test_inherit() {
  local period="period=1000000"

  record --call-graph fp,defer \
	-e "{task-clock/${period}/,cpu-clock/${period}/}:S,context-switches/period=1/" \
	bash -c 'for i in 1 2 3 4 5; do sleep 0.1; done'
  check "group beside an inherited event, output" "3 1" "$(attr_bits)"
  check "group beside an inherited event, all merged" "ok" "$(all_merged)"
}

# The rings are read at different times, so each gets the records of its samples
test_overwrite() {
  local period="period=1000000"

  record --call-graph fp,defer -e "task-clock/overwrite,${period}/,cpu-clock/${period}/" \
	"${workload[@]}"
  check "one of two rings is overwritten, outputs" "2 2" "$(attr_bits)"
  check "one of two rings is overwritten, all merged" "ok" "$(all_merged)"
  record --overwrite --call-graph fp,defer -e task-clock -c 1000000 "${workload[@]}"
  check "all rings are overwritten, all merged" "ok" "$(all_merged)"
}

# Threads that wait have no stack yet, though they could be walked at the event
only_defer() {
  if [ -w /proc/sys/kernel/unwind_in_place ]
  then
    in_place=$(cat /proc/sys/kernel/unwind_in_place)
    echo 0 > /proc/sys/kernel/unwind_in_place
  fi
}

defer_as_before() {
  if [ -n "${in_place}" ]
  then
    echo "${in_place}" > /proc/sys/kernel/unwind_in_place
    in_place=""
  fi
}

# A task sleeps while the output is switched: its sample is moved to the file of the
# record. The kernel must not walk the task's stack at the event: then no record
# would follow.
test_switch_output() {
  local name="${tmpdir}/switched" file stats sum="" blank=0

  if ! command -v python3 > /dev/null
  then
    echo "switched output [Skip] no python3"
    return
  fi
  only_defer
  perf record -o "${name}" --switch-output=2s --call-graph fp,defer -e context-switches -c 1 \
	python3 -c 'import time; time.sleep(15)' > /dev/null 2> "${log}" || true
  defer_as_before
  if [ "$(find "${tmpdir}" -name "switched.*" | wc -l)" -lt 2 ]
  then
    echo "switched output [Skip] not switched"
    return
  fi
  for file in "${name}".*
  do
    stats=$(perf report --stats -i "${file}" 2>/dev/null | sed -n "s/^Deferred callchains: //p")
    [ -z "${stats}" ] || sum="${sum}${stats##*, };"
    blank=$((blank + $(perf report -D -i "${file}" 2>/dev/null |
		       grep -c "RECORD_EVENT_TYPE" || true)))
  done
  check "switched output, no sample without record" "0 without record" \
	"$(echo "${sum}" | tr ";" "\n" | grep . | sort -u)"
  check "switched output, a sample was taken along" "yes" \
	"$([ "${blank}" -eq 0 ] || echo yes)"
}

# unwind_tables <command>... - started in place of unwind-tables(8)
unwind_tables() {
  mkdir -p "${tmpdir}/bin"
  printf '#!/bin/sh\n%s\n' "$*" > "${tmpdir}/bin/unwind-tables"
  chmod +x "${tmpdir}/bin/unwind-tables"
}

# The preparations of the recording can take longer than a file
test_switch_prepared() {
  local name mode nr

  unwind_tables "sleep 3"
  for mode in "" --overwrite
  do
    name="${tmpdir}/prepared${mode}"
    # shellcheck disable=SC2086 # there may be none
    PATH="${tmpdir}/bin:${PATH}" perf record -o "${name}" ${mode} --switch-output=1s \
	--unwind-tables --call-graph fp,defer -e task-clock sleep 5 > /dev/null 2> "${log}" || true
    nr=$(find "${tmpdir}" -name "prepared${mode}.*" | wc -l)
    check "output switched after a long preparation${mode:+, ${mode}}, ${nr} files" "several" \
	"$([ "${nr}" -lt 3 ] || echo several)"
  done
}

# The program starts without the tables that take too long
test_prepared_in_part() {
  if [ ! -c /dev/unwind_tables ]
  then
    echo "tables that are left [Skip] no /dev/unwind_tables"
    return
  fi
  unwind_tables 'echo watching; read -r name; echo "left 3"; cat > /dev/null'
  PATH="${tmpdir}/bin:${PATH}" record --unwind-tables --call-graph fp,defer -e task-clock sleep 1
  check "tables that are left" "1" \
	"$(grep -c "^Unwind tables for 3 files of sleep are not ready yet" "${log}")"
}

# The samples of many waiting threads do not fit into a file
test_switch_size() {
  local name="${tmpdir}/sized" nr

  if ! command -v python3 > /dev/null
  then
    echo "output switched by size [Skip] no python3"
    return
  fi
  only_defer
  perf record -o "${name}" --switch-output=64K --call-graph fp,defer -e context-switches -c 1 \
	python3 -c '
import threading, time
end = threading.Event()
threads = [threading.Thread(target=end.wait) for _ in range(400)]
for thread in threads:
    thread.start()
for _ in range(300):
    time.sleep(0.01)
end.set()' > /dev/null 2> "${log}" || true
  defer_as_before
  nr=$(find "${tmpdir}" -name "sized.*" | wc -l)
  if [ "${nr}" -lt 2 ]
  then
    echo "output switched by size [Skip] not switched"
    return
  fi
  check "output switched by size, ${nr} files" "not at each wakeup" \
	"$([ "${nr}" -gt 50 ] || echo "not at each wakeup")"
}

# Records get lost while perf is stopped, and their threads end: samples move once
test_switch_lost() {
  local name="${tmpdir}/lost" file moved=""

  perf record -o "${name}" -m 1 --switch-output --call-graph fp,defer \
	-e task-clock:u -c 1000000 sh -c '
	for i in 1 2 3 4 5 6
	do
	  kill -STOP $PPID; perf test -w leafloop; kill -CONT $PPID
	done
	for i in 1 2 3
	do
	  sleep 1; kill -USR2 $PPID
	done
	sleep 1' > /dev/null 2> "${log}" || true
  for file in "${name}".*
  do
    moved="${moved} $(perf report -D -i "${file}" 2>/dev/null |
		      grep -c "RECORD_EVENT_TYPE" || true)"
  done
  if [[ ! ${moved} =~ ^\ [1-9] ]]
  then
    echo "switched output, lost records [Skip] none was lost"
    return
  fi
  check "switched output, samples whose record is lost move once" "0 0 0" "${moved# * }"
}

test_depth() {
  local mode max

  for mode in fp,defer,2 defer,2
  do
    record --call-graph "${mode}" -e task-clock -c 1000000 "${workload[@]}"
    max=$(perf script --no-merge-callchains --no-inline -F ip,sym -i "${data}" 2>/dev/null |
	  awk '/DEFERRED/ { n = 0; rec = 1; next }
	       NF == 0 { if (rec && n > max) max = n; rec = n = 0; next }
	       { n++ } END { print max }')
    check "depth, ${mode}" "2" "${max}"
  done
}

test_system_wide() {
  if ! record -a --call-graph fp,defer -e cpu-clock -c 1000000 "${workload[@]}"
  then
    echo "system-wide [Skip] not permitted"
    return
  fi
  check "system-wide, callchains and output by different events" "1 1" "$(attr_bits)"
  check "system-wide, script" "ok" "$(leaf_chains -i "${data}")"
}

# The task is sampled in a system call that takes it to another CPU
test_other_cpu() {
  local stats

  if [ "$(getconf _NPROCESSORS_ONLN)" -lt 2 ] || ! command -v python3 > /dev/null
  then
    echo "other CPU [Skip] no other CPU, or no python3"
    return
  fi
  cat > "${tmpdir}/hop.py" <<EOF
import os
first, second = sorted(os.sched_getaffinity(0))[:2]
for i in range(200):
    os.sched_setaffinity(0, {first})
    os.sched_setaffinity(0, {second})
EOF
  if ! record -C 0 --call-graph fp,defer -e context-switches -c 1 \
	python3 "${tmpdir}/hop.py"
  then
    echo "other CPU [Skip] not permitted"
    return
  fi
  stats=$(perf report --stats -i "${data}" 2>/dev/null | grep "^Deferred callchains: [1-9]")
  # The event that tracks all CPUs gets the record wherever the task unwinds
  if perf report --stats -i "${data}" 2>/dev/null | grep -q "LOST"
  then
    echo "other CPU [Skip] a buffer was full"
  elif echo "${stats}" |
       grep -q ", 0 without record\|without record ([0-9]* still in the kernel at the end)"
  then
    success "other CPU"
  else
    failed "other CPU" "${stats}"
  fi
}

# What perf_event_paranoid allows everybody
test_ordinary_user() {
  local level graph kernel user=(setpriv --reuid=65534 --regid=65534 --clear-groups)

  if [ "$(id -u)" -ne 0 ] || ! command -v setpriv > /dev/null ||
     ! "${user[@]}" test -x "$(command -v perf)"
  then
    echo "ordinary user [Skip] not root, no setpriv, or perf cannot be reached"
    return
  fi
  paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
  chmod 711 "${tmpdir}"
  mkdir "${tmpdir}/user"
  chown 65534 "${tmpdir}/user"
  for level in 1 2
  do
    echo "${level}" > /proc/sys/kernel/perf_event_paranoid
    for graph in "fp" "fp,defer"
    do
      data="${tmpdir}/user/${level}.${graph}"
      "${user[@]}" perf record -o "${data}" --call-graph "${graph}" -e task-clock -c 1000000 \
	"${workload[@]}" > /dev/null 2> "${log}" || true
      chown 0 "${data}"
      check "ordinary user, level ${level}, ${graph}" "ok" "$(leaf_chains -i "${data}")"
      kernel=$(perf evlist -v -i "${data}" 2>/dev/null |
	       grep -c "^task-clock.*exclude_callchain_kernel: 1" || true)
      check "ordinary user, level ${level}, ${graph}, without the kernel's part" \
	    "$((level > 1))" "${kernel}"
      check "ordinary user, level ${level}, ${graph}, lines that say so" "$((level > 1))" \
	    "$(grep -c "perf_event_paranoid=2: callchains without" "${log}" || true)"
    done
    check "ordinary user, level ${level}, all merged" "ok" "$(all_merged)"
  done
  # The base knows no level above 2, the kernels of some distributions do.
  echo 3 > /proc/sys/kernel/perf_event_paranoid
  if "${user[@]}" perf stat -e task-clock true > /dev/null 2>&1
  then
    echo "ordinary user, level 3 [Skip] as level 2 for this kernel"
  else
    check "ordinary user, level 3" "refused" \
	  "$("${user[@]}" perf record -o "${data}" --call-graph fp,defer -e task-clock true \
	       > /dev/null 2> "${log}" || echo refused)"
    check "ordinary user, level 3, reason" "yes" \
	  "$(grep -q "perf_event_paranoid" "${log}" && echo yes)"
  fi
  echo "${paranoid}" > /proc/sys/kernel/perf_event_paranoid
  paranoid=""
  data="${tmpdir}/perf.data"
}

test_kernel_only() {
  record --kernel-callchains --call-graph fp,defer -e task-clock -c 1000000 "${workload[@]}"
  check "no user callchains wanted" "0 0" "$(attr_bits)"
}

test_config() {
  cat > "${tmpdir}/config" <<EOF
[call-graph]
	record-mode = fp,defer
EOF
  PERF_CONFIG="${tmpdir}/config" record -g -e task-clock -c 1000000 "${workload[@]}"
  check "record-mode in perfconfig" "1 1" "$(attr_bits)"
  if PERF_CONFIG="${tmpdir}/config" perf lock record -o "${data}" true > /dev/null 2> "${log}"
  then
    check "record-mode in perfconfig, lock record" "2 1" "$(attr_bits)"
    perf lock record -o "${data}" true > /dev/null 2> "${log}"
    check "lock record by default" "0 0" "$(attr_bits)"
  else
    echo "lock record [Skip] no tracepoints"
  fi
}

test_pipe() {
  perf record -o - --call-graph fp,defer -e task-clock -c 1000000 "${workload[@]}" \
	2> "${log}" > "${data}"
  check "pipe, script" "ok" "$(leaf_chains -i - < "${data}")"
  perf inject -b < "${data}" 2>/dev/null > "${data}.inj"
  check "pipe, inject -b" "ok" "$(leaf_chains -i - < "${data}.inj")"
}

test_report() {
  record --call-graph fp,defer -e task-clock -c 1000000 "${workload[@]}"
  check "report" "leafloop;parent;leaf" \
	"$(perf report --stdio --no-children -g folded,caller,count -i "${data}" 2>/dev/null |
	   grep -o "leafloop;parent;leaf$" | sort -u)"
  perf inject -b -i "${data}" -o "${data}.inj" 2> "${log}"
  check "inject -b" "ok" "$(leaf_chains -i "${data}.inj")"
  perf inject --merge-callchains -i "${data}" -o "${data}.inj" 2> "${log}"
  check "inject --merge-callchains" "ok" "$(leaf_chains --no-merge-callchains -i "${data}.inj")"
}

# For readers that don't know deferred callchains
test_merge() {
  local figures

  record --merge-callchains --call-graph fp,defer -e task-clock -c 1000000 "${workload[@]}"
  check "record --merge-callchains" "ok" "$(leaf_chains --no-merge-callchains -i "${data}")"
  check "record --merge-callchains, attributes" "0 0" "$(attr_bits)"
  check "record --merge-callchains, nothing left over" "" "$(ls "${data}.merged" 2>/dev/null)"
  check "record --merge-callchains, line at the end" "1" \
	"$(grep -c "^\[ perf record: Put the user callchains into their samples" "${log}" || true)"
  record -z --merge-callchains --call-graph fp,defer -e task-clock -c 1000000 "${workload[@]}"
  check "record --merge-callchains, compressed" "ok" \
	"$(leaf_chains --no-merge-callchains -i "${data}")"
  record --call-graph fp,defer -e task-clock -c 1000000 "${workload[@]}"
  figures=$(perf script -i "${data}" 2>/dev/null | cksum)
  perf inject -b --merge-callchains -i "${data}" -o "${data}.inj" 2> "${log}"
  check "inject -b --merge-callchains" "${figures}" \
	"$(perf script --no-merge-callchains -i "${data}.inj" 2>/dev/null | cksum)"
  check "inject -b --merge-callchains, build IDs" "yes" \
	"$(perf buildid-list -i "${data}.inj" 2>/dev/null | grep -q "perf$" && echo yes)"

  for option in --switch-output --timestamp-filename --kcore
  do
    if record --merge-callchains ${option} --call-graph fp,defer -e task-clock true ||
       ! grep -q "^--merge-callchains can't be used with" "${log}"
    then
      failed "record --merge-callchains ${option}" "no reason given"
    fi
    check "record --merge-callchains ${option}, no output" "" "$(ls -d "${data}" 2>/dev/null)"
  done
  if perf record --merge-callchains -o - --call-graph fp,defer -e task-clock true \
	2> "${log}" > /dev/null || ! grep -q "perf inject --merge-callchains" "${log}"
  then
    failed "record --merge-callchains to a pipe" "no reason given"
  fi
}

# The functions that perf top shows below leaf()
top_callers() {
  awk '/---leaf$/ { getline a; getline b; gsub(/ /, "", a); gsub(/ /, "", b); print a, b; exit }' \
	"$1"
}

test_top() {
  local out="${tmpdir}/top" input="${tmpdir}/input" pid callers=""

  if ! command -v stdbuf > /dev/null
  then
    echo "top [Skip] no stdbuf"
    return
  fi

  mkfifo "${input}"
  # Without input, but without reading its end either
  exec 9<> "${input}"
  perf test -w leafloop 90 &
  workload_pid=$!
  stdbuf -oL perf top --stdio --no-children -d 2 -e cpu-clock -F 100 \
	--call-graph fp,defer,callee < "${input}" > "${out}" 2> "${log}" 9>&- &
  pid=$!
  for _ in $(seq 80)
  do
    sleep 1
    callers=$(top_callers "${out}")
    [ -z "${callers}" ] || break
    kill -0 ${pid} 2>/dev/null || break
  done
  kill -INT ${pid} 2>/dev/null || true
  for _ in $(seq 30)
  do
    kill -0 ${pid} 2>/dev/null || break
    sleep 1
  done
  kill -KILL ${pid} ${workload_pid} 2>/dev/null || true
  wait 2>/dev/null || true
  workload_pid=""
  exec 9>&-

  if ! grep -q "PerfTop" "${out}"
  then
    echo "top [Skip] can't run"
    return
  fi
  check "top" "parent leafloop" "${callers}"
  check "top, line at the end" "1" \
	"$(grep -c "^\[ perf top: Deferred callchains: [1-9].* samples, .* without record" \
	     "${log}" || true)"
}

test_trace_replay() {
  if ! perf trace record -o "${data}" --call-graph fp,defer -- cat /dev/null \
	> /dev/null 2> "${log}"
  then
    echo "trace record [Skip] no tracepoints"
    return
  fi
  check "trace record" "2 1" "$(attr_bits)"
  perf trace -i "${data}" -o "${tmpdir}/trace" 2> "${log}"
  check "trace -i, all system calls have their caller" "yes" \
	"$(awk '/ cat\/[0-9]+ / { if (call && !frames) bad++; call = 1; frames = 0; next }
		/\(.*\/.*\)$/ { frames++; all++ }
		END { print (!bad && all > 10) ? "yes" : bad + 0 " of " all + 0 }' \
	     "${tmpdir}/trace")"
}

# A record wakes nobody, and the task computes after its last system call: without a
# timer its line would come with the next event, that is, never.
test_trace_timer() {
  local out="${tmpdir}/trace" stop="${tmpdir}/stop" pid line=""

  if ! command -v python3 > /dev/null
  then
    echo "trace, timer [Skip] no python3"
    return
  fi
  rm -f "${out}" "${stop}"
  cat > "${tmpdir}/compute.py" <<EOF
import os, select, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.1)
select.select([], [], [], 0.1)
while True:
    pass
EOF
  python3 "${tmpdir}/compute.py" "${stop}" &
  workload_pid=$!
  # Standard error is not buffered, as on a terminal
  perf trace -p ${workload_pid} --call-graph fp,defer \
	-e syscalls:sys_enter_clock_nanosleep,syscalls:sys_enter_select \
	-e syscalls:sys_enter_pselect6 2> "${out}" &
  pid=$!
  for _ in $(seq 100)
  do
    sleep 1
    grep -q "nanosleep" "${out}" 2>/dev/null && touch "${stop}"
    line=$(grep -o "sys_enter_p*select" "${out}" 2>/dev/null || true)
    [ -z "${line}" ] || break
    kill -0 ${pid} 2>/dev/null || break
  done
  kill -INT ${pid} 2>/dev/null || true
  wait ${pid} 2>/dev/null || true
  kill -KILL ${workload_pid} 2>/dev/null || true
  wait 2>/dev/null || true
  workload_pid=""
  if [ ! -e "${stop}" ] && ! grep -q "nanosleep" "${out}"
  then
    echo "trace, timer [Skip] can't trace"
    return
  fi
  check "trace, a line does not wait for the next event" "yes" "${line:+yes}"
}

test_trace() {
  if ! perf trace -e raw_syscalls:sys_enter --call-graph fp,defer --max-events 3 true \
	> "${tmpdir}/trace" 2> "${log}"
  then
    echo "trace [Skip] no tracepoints"
    return
  fi
  check "trace, line at the end" "1" \
	"$(grep -c "^\[ perf trace: Deferred callchains: [1-9].* samples, .* without record" \
	     "${log}" || true)"
}

# The numbers of complete user stacks, and the ends of the others, alone
user_stacks() {
  awk '/[Uu]ser stacks ?: / { on = 1; sub(/.*[Uu]ser stacks ?: /, ""); sub(/ \]$/, ""); print
			      next }
       on && /^(#|) +[0-9]+  / { sub(/^# /, ""); print; next }
       { on = 0 }'
}

# Each sample is counted once
user_stacks_sum() {
  awk 'NR == 1 { nr = $3; sum = $1; next }
       { sum += $1 }
       END { if (nr > 0 && sum == nr) print "ok"; else print sum " of " nr }'
}

test_complete() {
  local ends cut

  if [ ! -e /proc/sys/kernel/unwind_table_max_kb ]
  then
    echo "user stacks [Skip] this kernel does not tell which ones are complete"
    return
  fi

  record --unwind-tables --call-graph fp,defer,2 -e task-clock -c 1000000 "${workload[@]}"
  ends=$(user_stacks < "${log}")
  check "user stacks, at the end of record" "1" \
	"$(echo "${ends}" | grep -c "/perf: deeper than the limit of 2 frames$")"
  check "user stacks, sum" "ok" "$(echo "${ends}" | user_stacks_sum)"
  check "user stacks, header" "${ends}" \
	"$(perf report --header-only -i "${data}" 2>/dev/null | user_stacks)"
  cut=$(echo "${ends}" | awk 'NR == 1 { print $3 - $1 }')
  check "user stacks, script" "${cut}" \
	"$(perf script -F tid,complete -i "${data}" 2>/dev/null | grep -c " cut$")"
  check "user stacks, marked" "${cut}" \
	"$(perf script -F ip -i "${data}" 2>/dev/null | grep -c " \[cut\]\| \[no user stack\]")"
}

test_usage() {
  local mode

  for mode in dwarf,defer dwarf,8192,defer lbr,defer
  do
    if perf record -o /dev/null --call-graph "${mode}" true 2> "${log}" > /dev/null
    then
      failed "--call-graph ${mode}" "accepted"
    elif ! grep -q "callchain: A '.*' callchain can't be deferred: use 'defer' " "${log}"
    then
      failed "--call-graph ${mode}" "no reason given"
    else
      success "--call-graph ${mode} refused"
    fi
  done
  for mode in fp,later fp,defer,2,3 defer,2,3
  do
    if perf record -o /dev/null --call-graph "${mode}" true 2> "${log}" > /dev/null
    then
      failed "--call-graph ${mode}" "accepted"
    else
      success "--call-graph ${mode} refused"
    fi
  done
}

test_usage
test_support
if ${supported}
then
  test_missing_support
  test_task
  test_events
  test_inherit
  test_overwrite
  test_switch_output
  test_switch_prepared
  test_prepared_in_part
  test_switch_size
  test_switch_lost
  test_depth
  test_system_wide
  test_other_cpu
  test_kernel_only
  test_ordinary_user
  test_config
  test_pipe
  test_report
  test_merge
  test_complete
  test_trace
  test_trace_replay
  test_trace_timer
  test_top
else
  check_fallback "missing support"
  echo "deferred callchains [Skip] not supported by this kernel"
fi

cleanup
exit ${err}
