#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# perf trace -i

set -e

if ! perf list tracepoint 2> /dev/null | grep -q raw_syscalls:sys_exit
then
  echo "[Skip] no raw_syscalls tracepoints"
  exit 2
fi

tmpdir=$(mktemp -d /tmp/__perf_test.trace_replay.XXXXX)
data="${tmpdir}/perf.data"
log="${tmpdir}/log"

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

failed() {
  echo "perf trace -i [Failed] $1"
  tail -n 20 "${log}"
  cleanup
  exit 1
}

if ! perf trace record -o "${data}" -- cat /dev/null > /dev/null 2> "${log}"
then
  echo "[Skip] can't record system calls"
  cleanup
  exit 2
fi

perf trace -i "${data}" > "${log}" 2>&1 || failed "exit status $?"

# A line for each system call: when it returns, and for the one that does not
calls=$(perf script -F event -i "${data}" 2> /dev/null | grep -c sys_exit)
lines=$(grep -c " cat/[0-9]* " "${log}")
[ "${lines}" -eq "$((calls + 1))" ] || failed "${lines} lines, ${calls} calls have returned"
[ "$(grep -c "exit_group()" "${log}")" -eq 1 ] || failed "no exit"

echo "perf trace -i [Success]"
cleanup
