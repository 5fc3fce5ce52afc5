#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# perf trace -i

set -e

# shellcheck source=lib/tmpdir.sh
. "$(dirname "$0")/lib/tmpdir.sh"

title="perf trace -i"
data="${tmpdir}/perf.data"

perf list tracepoint 2> /dev/null | grep -q raw_syscalls:sys_exit ||
  skip "no raw_syscalls tracepoints"

perf trace record -o "${data}" -- cat /dev/null > /dev/null 2> "${log}" ||
  skip "can't record system calls"

perf trace -i "${data}" > "${log}" 2>&1 || failed "exit status $?"

# A line for each system call: when it returns, and for the one that does not
calls=$(perf script -F event -i "${data}" 2> /dev/null | grep -c sys_exit)
lines=$(grep -c " cat/[0-9]* " "${log}")
[ "${lines}" -eq "$((calls + 1))" ] || failed "${lines} lines, ${calls} calls have returned"
[ "$(grep -c "exit_group()" "${log}")" -eq 1 ] || failed "no exit"

echo "perf trace -i [Success]"
cleanup
