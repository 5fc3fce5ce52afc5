#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# perf script report pprof

set -e

# shellcheck source=lib/tmpdir.sh
. "$(dirname "$0")/lib/tmpdir.sh"

title="perf script report pprof"
script="${PERF_EXEC_PATH:-$(perf --exec-path)}/scripts/python/pprof.py"

if ! command -v python3 > /dev/null || [ ! -e "${script}" ] ||
   ! perf check feature -q libpython 2> /dev/null
then
  skip "no python3, no pprof.py or no Python in perf"
fi

mkdir "${tmpdir}/empty"
cd "${tmpdir}/empty"

# Print what a profile has: "stacks" as folded text, "lines" of its locations, or "all".
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
types = [[strings[one(t, n)] for n in (1, 2)] for t in map(message, profile[1] + profile[11])]
assert strings[0] == ''

def lines(location):
    for line in map(message, location[4]):
        function = tables[5][one(line, 1)]
        file = strings[one(function, 4)]
        yield strings[one(function, 2)], ' %s:%d' % (file, one(line, 2)) if file else ''

counts = collections.Counter()
for sample in map(message, profile[2]):
    labels = {strings[one(f, 1)]: strings[one(f, 2)] for f in map(message, sample[3])}
    locations = [tables[4][n] for n in integers(sample[1][0])]
    names = [name for f in locations for name, _ in lines(f)]
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
    if sys.argv[1] == 'lines':
        for fields in locations:
            print(', '.join(name + where for name, where in lines(fields)))
if sys.argv[1] == 'stacks':
    for stack in sorted(counts):
        print(stack, counts[stack])
elif sys.argv[1] == 'all':
    print('types', *map('/'.join, types), 'default', strings[one(profile, 14)])
    print('program', strings[one(message(profile[3][0]), 5)])
    print('start', one(profile, 9), 'duration', one(profile, 10), 'period', one(profile, 12))
EOF

# Complete stacks, and those that are cut or missing: all as in folded text. There is no
# perf.data where it runs: it has to read the file that is named.
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
cat > "${tmpdir}/write.py" << 'EOF'
import sys
sys.path.insert(0, sys.argv[1])
from deferred_callchain_data import *
data = Data()
data.sample_type |= 1 << 21 # with a cgroup
pid = 5000000
data.comm(pid, 'prog')
data.event(19, 0, data.pack('Q', 7) + b'/a.slice'.ljust(16, b'\0') + data.trailer(0, 2, 0))
# A mapping (MMAP2), with a build ID
def mapping(start, path):
    data.event(10, MISC_USER | 1 << 14,
               data.pack('IIQQQ', pid, pid, start, 0x1000, 0x3000) +
               data.pack('BBH', 20, 0, 0) + bytes(range(1, 21)) + data.pack('II', 5, 2) +
               path.ljust(24, b'\0') + data.trailer(pid, 3, 0))
def sample(time, *chain, event=11):
    data.event(RECORD_SAMPLE, MISC_USER,
               data.pack('QQIIQIIQ', event, chain[0], pid, pid, time, 0, 0, 1 + len(chain)) +
               data.pack('%dQ' % (1 + len(chain)), CONTEXT_USER, *chain) + data.pack('Q', 7))
mapping(U1 & ~0xfff, b'/nowhere/prog')
mapping(V1 & ~0xfff, b'/nowhere/library')
# The library is seen first, but is not the program.
for time in (100, 150):
    sample(time, V1, U2)
if len(sys.argv) > 3:
    # A second event, whose periods are not time. The first sample is one of it. Code
    # that was generated while the program ran is below it, and not the program.
    data.attrs.append((SW_PAGE_FAULTS, data.attrs[0][1], [31]))
    mapping(0x1000, b'/tmp/perf-5000000.map')
    sample(60, U1, event=31)
    sample(70, V1, U2, event=31)
    sample(80, 0x1100, U2)
data.write(sys.argv[2])
EOF
export PYTHONDONTWRITEBYTECODE=1
python3 "${tmpdir}/write.py" "${libdir}" "${tmpdir}/some.data"
touch -d '@1000' "${tmpdir}/some.data"
perf script report pprof -i "${tmpdir}/some.data" -o "${tmpdir}/some.pb.gz" > "${log}" 2>&1 ||
  failed "build ID and cgroup: exit status $?"
build_id=0102030405060708090a0b0c0d0e0f1011121314
cat > "${tmpdir}/want" << EOF
[library] [prog] comm=prog pid=5000000 cgroup=/a.slice 2 2000
0x501100 0x501000-0x502000 0x3000 /nowhere/library ${build_id}
0x4011ff 0x401000-0x402000 0x3000 /nowhere/prog ${build_id}
types samples/count time/nanoseconds cpu/nanoseconds default time
program /nowhere/prog
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

# Two events: their samples are not added up, and only the periods of a clock are time.
python3 "${tmpdir}/write.py" "${libdir}" "${tmpdir}/two.data" two
profile() { # OPTION... - the samples and their values, then the kinds of values
  perf script report pprof -i "${tmpdir}/two.data" -o "${tmpdir}/two.pb.gz" "$@" > "${log}" 2>&1 ||
    return
  python3 "${tmpdir}/read.py" all "${tmpdir}/two.pb.gz" 2> "${log}" |
    sed -n 's/:HG//g; s/ comm=.*slice / /p; /^types\|^program/p'
}
cat > "${tmpdir}/want" << EOF
[prog] 0 0 1 1000
[library] [prog] 2 2000 1 1000
[perf-5000000.map] [prog] 1 1000 0 0
types task-clock_samples/count task-clock_time/nanoseconds $(
  )page-faults_samples/count page-faults/count cpu/nanoseconds default task-clock_time
program /nowhere/prog
EOF
profile > "${tmpdir}/seen" || failed "two events: exit status $?"
diff <(sort "${tmpdir}/want") <(sort "${tmpdir}/seen") > "${log}" ||
  failed "two events: other values"
cat > "${tmpdir}/want" << EOF
[prog] 1 1000
[library] [prog] 1 1000
types samples/count page-faults/count page-faults/count default page-faults
program /nowhere/prog
EOF
profile --event page-faults > "${tmpdir}/seen" || failed "--event: exit status $?"
diff "${tmpdir}/want" "${tmpdir}/seen" > "${log}" || failed "--event: other values"
if profile --event=task > /dev/null
then
  failed "an event that was not recorded: exit status 0"
fi
grep -q 'No samples of task\. .* page-faults[:HG]*, task-clock' "${log}" ||
  failed "an event that was not recorded: no reason"

# Help needs no recording.
for viewer in pprof flamegraph gecko
do
  perf script report "${viewer}" -h > "${log}" 2>&1 || failed "${viewer} -h: exit status $?"
  grep -q -- '--event EVENT' "${log}" || failed "${viewer} -h: no help"
done

# Inlined functions are lines of the location that they were inlined in. A function that
# calls itself has one location for each call.
if command -v gcc > /dev/null && command -v addr2line > /dev/null && [ "$(uname -m)" = x86_64 ]
then
  cat > "${tmpdir}/prog.c" << 'EOF'
__attribute__((noinline)) int leaf(int x) { asm volatile("" : "+r" (x)); return x; }
static inline __attribute__((always_inline)) int inlined(int x)
{
	x = leaf(x);
	asm volatile(".globl after_call\nafter_call: nop" : "+r" (x));
	return x;
}
__attribute__((noinline)) int outer(int x)
{
	return inlined(x) + 1;
}
int main(int argc, char **argv) { return outer(argc) + 1; }
EOF
  gcc -g -O2 -nostdlib -static -no-pie -Wl,-e,main -o "${tmpdir}/prog" "${tmpdir}/prog.c"
  # Its debug information has another name, as with functions that the compiler has cloned.
  objcopy --redefine-sym outer=outer.part.0 "${tmpdir}/prog"
  nm "${tmpdir}/prog" > "${tmpdir}/symbols"
  readelf -lW "${tmpdir}/prog" > "${tmpdir}/segments"
  python3 - "${libdir}" "${tmpdir}" << 'EOF'
import sys
sys.path.insert(0, sys.argv[1])
from deferred_callchain_data import *
symbols = {line.split()[2]: int(line.split()[0], 16) for line in open(sys.argv[2] + '/symbols')}
for line in open(sys.argv[2] + '/segments'):
    fields = line.split()
    if fields[:1] == ['LOAD'] and 'E' in fields[6:8]:
        offset, start, size = (int(fields[i], 16) for i in (1, 2, 4))
data = Data()
pid = 5000000
path = sys.argv[2].encode() + b'/prog\0'
data.comm(pid, 'prog')
data.event(1, MISC_USER, data.pack('IIQQQ', pid, pid, start, (size + 0xfff) & ~0xfff, offset) +
           path + bytes(-len(path) % 8) + data.trailer(pid, 2, 0))
leaf, call, main = (symbols[name] for name in ('leaf', 'after_call', 'main'))
data.sample(pid, 100, [CONTEXT_USER, leaf, call, call, main + 1], misc=MISC_USER, ip=leaf)
data.write(sys.argv[2] + '/inlined.data')
EOF
  line_of() { echo "${tmpdir}/prog.c:$(grep -n "$1" "${tmpdir}/prog.c" | cut -d : -f 1)"; }
  twice="inlined $(line_of 'x = leaf'), outer.part.0 $(line_of 'return inlined')"
  printf '%s\n' "leaf $(line_of 'int leaf')" "${twice}" "${twice}" "main $(line_of 'int main')" \
    > "${tmpdir}/with"
  sed 's/ [^ ]*:[0-9]*//g' "${tmpdir}/with" > "${tmpdir}/without"
  for lines in without with
  do
    option=$([ "${lines}" = without ] || echo --lines)
    # shellcheck disable=SC2086 # no argument, or one
    perf script report pprof ${option} -i "${tmpdir}/inlined.data" -o "${tmpdir}/lines.pb.gz" \
      > "${log}" 2>&1 || failed "${lines} lines: exit status $?"
    python3 "${tmpdir}/read.py" lines "${tmpdir}/lines.pb.gz" > "${tmpdir}/seen" 2> "${log}" ||
      failed "${lines} lines: cannot be read"
    diff "${tmpdir}/${lines}" "${tmpdir}/seen" > "${log}" || failed "${lines} lines: others"
  done
else
  echo "lines of locations [Skipped] no gcc or addr2line for x86-64"
fi

echo "perf script report pprof [Success]"
cleanup
