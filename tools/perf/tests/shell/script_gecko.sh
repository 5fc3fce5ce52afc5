#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# perf script report gecko

set -e

# shellcheck source=lib/tmpdir.sh
. "$(dirname "$0")/lib/tmpdir.sh"

title="perf script report gecko"
script="${PERF_EXEC_PATH:-$(perf --exec-path)}/scripts/python/gecko.py"

if ! command -v python3 > /dev/null || [ ! -e "${script}" ] ||
   ! perf check feature -q libpython 2> /dev/null
then
  skip "no python3, no gecko.py or no Python in perf"
fi

mkdir "${tmpdir}/empty"
cd "${tmpdir}/empty"

# These stacks have no names, but are as deep as they were recorded.
PYTHONDONTWRITEBYTECODE=1 python3 - "${libdir}" "${tmpdir}/some.data" << 'EOF'
import sys
sys.path.insert(0, sys.argv[1])
from deferred_callchain_data import *
data = Data()
data.comm(10, 'ten')
data.sample(10, 100, [CONTEXT_KERNEL, K1, CONTEXT_USER, U1, U2])
data.sample(10, 110, [CONTEXT_USER, U1, U2], misc=MISC_USER, ip=U1)
data.write(sys.argv[2])
# Another event, which was named later, but seen earlier
data.attrs.append((SW_PAGE_FAULTS, data.attrs[0][1], [31]))
data.event(RECORD_SAMPLE, MISC_USER, data.pack('QQIIQIIQ', 31, U1, 10, 10, 90, 0, 0, 2) +
           data.pack('2Q', CONTEXT_USER, U1))
data.write(sys.argv[2] + '.two')
EOF

stacks() { # the name of the thread, and the depths of its stacks
  python3 -c '
import json, sys
for thread in json.load(open(sys.argv[1]))["threads"]:
    for stack, _, _ in thread["samples"]["data"]:
        depth = 0
        while stack is not None:
            depth += 1
            stack = thread["stackTable"]["data"][stack][0]
        print(thread["name"], depth)' "${tmpdir}/json" 2>> "${log}"
}

# There is no perf.data where it runs: it has to read the file that is named.
for args in "-i ${tmpdir}/some.data" "-i${tmpdir}/some.data" "--input=${tmpdir}/some.data" \
            "--input ${tmpdir}/some.data"
do
  rm -f "${tmpdir}/json"
  # shellcheck disable=SC2086 # several arguments
  perf script report gecko ${args} --save-only="${tmpdir}/json" > "${log}" 2>&1 ||
    failed "${args}: exit status $?"
  got=$(stacks)
  [ "${got}" = "$(printf 'ten 3\nten 2')" ] || failed "${args}: stacks ${got}"
done

# One event at a time: the one that the user has chosen, otherwise the first one, with a
# message
for event in '' page-faults
do
  perf script report gecko -i "${tmpdir}/some.data.two" ${event:+--event "${event}"} \
    --save-only="${tmpdir}/json" > "${log}" 2>&1 || failed "two events: exit status $?"
  got=$(stacks)
  case ${event} in
  '')
    [ "${got}" = "$(printf 'ten 3\nten 2')" ] || failed "two events: stacks ${got}"
    grep -q 'samples of task-clock[:HG]* only; .*: page-faults' "${log}" ||
      failed "two events: the choice is not said" ;;
  *)
    [ "${got}" = 'ten 1' ] || failed "an event was chosen: stacks ${got}" ;;
  esac
done

echo "perf script report gecko [Success]"
cleanup
