#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# perf script report pprof

set -e

libdir="$(cd "$(dirname "$0")/lib" && pwd)"
script="${PERF_EXEC_PATH:-$(perf --exec-path)}/scripts/python/pprof.py"

if ! command -v python3 > /dev/null || [ ! -e "${script}" ] ||
   ! perf check feature -q libpython 2> /dev/null
then
  echo "[Skip] no python3, no pprof.py or no Python in perf"
  exit 2
fi

tmpdir=$(mktemp -d /tmp/__perf_test.pprof.XXXXX)
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
  echo "perf script report pprof [Failed] $1"
  tail -n 20 "${log}"
  cleanup
  exit 1
}

mkdir "${tmpdir}/empty"
cd "${tmpdir}/empty"

# Print what a profile has: "stacks" as folded text, or "all".
cat > "${tmpdir}/read.py" << 'EOF'
import collections, gzip, sys

def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at

def message(data):
    fields = collections.defaultdict(list)
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        value, at = varint(data, at)
        if tag & 7 == 2:
            value, at = data[at:at + value], at + value
        fields[tag >> 3].append(value)
    return fields

def integers(data):
    values = []
    at = 0
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values

def one(fields, number):
    return fields[number][0] if fields[number] else 0

profile = message(gzip.open(sys.argv[2]).read())
strings = [text.decode() for text in profile[6]]
tables = {n: {one(f, 1): f for f in map(message, profile[n])} for n in (3, 4, 5)}
types = [[strings[one(message(t), n)] for n in (1, 2)] for t in profile[1]]
assert types == [['samples', 'count'], ['time', 'nanoseconds']], types
assert strings[0] == ''

counts = collections.Counter()
for sample in map(message, profile[2]):
    labels = {strings[one(f, 1)]: strings[one(f, 2)] for f in map(message, sample[3])}
    locations = [tables[4][n] for n in integers(sample[1][0])]
    names = [strings[one(tables[5][one(message(f[4][0]), 1)], 2)] for f in locations]
    values = integers(sample[2][0])
    counts[';'.join([labels['comm']] + names[::-1])] += values[0]
    if sys.argv[1] == 'all':
        print(*names, *('%s=%s' % label for label in labels.items()), *values)
        for fields in locations:
            line = '%#x' % one(fields, 3)
            if fields[2]:
                mapping = tables[3][fields[2][0]]
                line += ' %#x-%#x %#x' % tuple(one(mapping, n) for n in (2, 3, 4))
                line += ' %s %s' % tuple(strings[one(mapping, n)] for n in (5, 6))
            print(line)
if sys.argv[1] == 'stacks':
    for stack in sorted(counts):
        print(stack, counts[stack])
else:
    print('start', one(profile, 9), 'duration', one(profile, 10), 'period', one(profile, 12))
EOF

# Complete stacks, and those that are cut or missing: all as in folded text. There is
# no perf.data where it runs: all comes from the file that is named.
PYTHONDONTWRITEBYTECODE=1 python3 "${libdir}/deferred_callchain_data.py" cut "${tmpdir}/cut.data"
perf script report stackcollapse -i "${tmpdir}/cut.data" > "${tmpdir}/folded" 2> "${log}" ||
  failed "stackcollapse: exit status $?"
[ "$(grep -c '\[cut\]' "${tmpdir}/folded")" -gt 0 ] || failed "no stack is cut"
for args in "-i ${tmpdir}/cut.data" "-i${tmpdir}/cut.data" "--input=${tmpdir}/cut.data" \
            "--input ${tmpdir}/cut.data"
do
  rm -f "${tmpdir}/cut.pb.gz"
  # shellcheck disable=SC2086 # several arguments
  perf script report pprof ${args} -o "${tmpdir}/cut.pb.gz" > "${log}" 2>&1 ||
    failed "${args}: exit status $?"
  python3 "${tmpdir}/read.py" stacks "${tmpdir}/cut.pb.gz" > "${tmpdir}/seen" 2> "${log}" ||
    failed "${args}: cannot be read"
  diff "${tmpdir}/folded" "${tmpdir}/seen" > "${log}" || failed "${args}: other stacks"
done

# A program with a build ID, in a cgroup. The address of a caller is within its call.
PYTHONDONTWRITEBYTECODE=1 python3 - "${libdir}" "${tmpdir}/some.data" << 'EOF'
import sys
sys.path.insert(0, sys.argv[1])
from deferred_callchain_data import *
data = Data()
data.sample_type |= 1 << 21 # with a cgroup
pid = 5000000
data.comm(pid, 'prog')
data.event(19, 0, data.pack('Q', 7) + b'/a.slice'.ljust(16, b'\0') + data.trailer(0, 2, 0))
# A mapping (MMAP2), with a build ID
data.event(10, MISC_USER | 1 << 14,
           data.pack('IIQQQ', pid, pid, U1 & ~0xfff, 0x1000, 0x3000) +
           data.pack('BBH', 20, 0, 0) + bytes(range(1, 21)) + data.pack('II', 5, 2) +
           b'/nowhere/prog'.ljust(16, b'\0') + data.trailer(pid, 3, 0))
for time in (100, 150):
    data.event(RECORD_SAMPLE, MISC_USER,
               data.pack('QQIIQIIQ', 11, U1, pid, pid, time, 0, 0, 3) +
               data.pack('3Q', CONTEXT_USER, U1, U2) + data.pack('Q', 7))
data.write(sys.argv[2])
EOF
touch -d '@1000' "${tmpdir}/some.data"
perf script report pprof -i "${tmpdir}/some.data" -o "${tmpdir}/some.pb.gz" > "${log}" 2>&1 ||
  failed "build ID and cgroup: exit status $?"
mapping='0x401000-0x402000 0x3000 /nowhere/prog 0102030405060708090a0b0c0d0e0f1011121314'
cat > "${tmpdir}/want" << EOF
[prog] [prog] comm=prog pid=5000000 cgroup=/a.slice 2 2000
0x401100 ${mapping}
0x4011ff ${mapping}
start 999999999950 duration 50 period 1000
EOF
python3 "${tmpdir}/read.py" all "${tmpdir}/some.pb.gz" > "${tmpdir}/seen" 2> "${log}" ||
  failed "build ID and cgroup: cannot be read"
diff "${tmpdir}/want" "${tmpdir}/seen" > "${log}" || failed "build ID and cgroup: other data"

if perf script report pprof -i "${tmpdir}/some.data" -o /nowhere/out > "${log}" 2>&1
then
  failed "an output that cannot be written: exit status 0"
fi
grep -q '/nowhere/out' "${log}" || failed "an output that cannot be written: no reason"

echo "perf script report pprof [Success]"
cleanup
