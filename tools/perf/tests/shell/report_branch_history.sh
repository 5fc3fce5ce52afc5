#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Call stacks of branches without a callchain

# perf record -j stack without -g has the branches of the call stack, and no callchain.
# The recordings are made up: few machines record such branches.

set -e

# shellcheck source=lib/tmpdir.sh
. "$(dirname "$0")/lib/tmpdir.sh"

needs python3
cd "${tmpdir}"

# record PART... - one sample with "chain", "branches" or both
record() {
  PYTHONDONTWRITEBYTECODE=1 python3 - "${libdir}" "$@" << 'EOF'
import struct, sys
sys.path.insert(0, sys.argv[1])
from deferred_callchain_data import *

SAMPLE_BRANCH_STACK = 1 << 11
# Bit of attr.branch_sample_type, and the offset of that
BRANCH_USER = 1 << 0
BRANCH_CALL_STACK = 1 << 11
BRANCH_TYPE_AT = 72
# Of the header
FEATURE_BRANCH_STACK = 15

class Branches(Data):
    def attr(self, config, flags):
        attr = bytearray(super().attr(config, flags))
        struct.pack_into('<Q', attr, BRANCH_TYPE_AT, BRANCH_USER | BRANCH_CALL_STACK)
        return bytes(attr)

parts = sys.argv[2:]
data = Branches(defer=False)
data.sample_type &= ~SAMPLE_CALLCHAIN
data.comm(10, 'ten')
body = data.pack('QQIIQII', 11, U1, 10, 10, 100, 0, 0)
if 'chain' in parts:
    data.sample_type |= SAMPLE_CALLCHAIN
    body += data.pack('QQQQ', 3, CONTEXT_USER, U1, U3)
if 'branches' in parts:
    data.sample_type |= SAMPLE_BRANCH_STACK
    data.sections[FEATURE_BRANCH_STACK] = b''
    # Source and target of each, the last one first
    body += data.pack('QQQQQQQ', 2, U2, U1, 0, V2, V1, 0)
data.event(RECORD_SAMPLE, MISC_USER, body)
data.write('data')
EOF
}

# check NAME ADDRESS... - those that perf report --branch-history shows, in this order
check() {
  local name=$1 rc=0
  shift
  perf report -i data --branch-history --stdio --sort comm > out 2> err || rc=$?
  grep -oE '0x[45]0[0-9]{4}' out > got || true
  if [ "${rc}" -ne 0 ] || [ "$(cat got)" != "$(printf '%s\n' "$@")" ]
  then
    printf '%s [Failed] status %s, got:\n' "${name}" "${rc}"
    cat err out
    err=1
  fi
}

# The outermost first, each branch with its target
record branches
check "branches alone" 0x501100 0x501200 0x401100 0x401200
record chain
check "callchain alone" 0x401300 0x401100
# The branches take the place of the callchain's user part
record chain branches
check "both" 0x501200 0x401200 0x401100

cleanup
exit "${err}"
