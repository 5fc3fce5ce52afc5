#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Names of a program that is replaced (exclusive)

# An upgrade puts another file in the place of a program that is running. Its functions are
# those of the old file; they have no names rather than those of the new one.

set -e

# shellcheck source=lib/tmpdir.sh
. "$(dirname "$0")/lib/tmpdir.sh"

pid=

at_end() {
  [ -z "${pid}" ] || kill "${pid}" 2> /dev/null || true
}

cd "${tmpdir}"
needs gcc nm readelf python3

# With an argument, it puts that file in its own place.
cat > prog.c << 'EOF'
#include <stdio.h>
#include <unistd.h>
#define NI __attribute__((noinline, noipa))
volatile long x;
NI void NAME(add)(long i)
{
	x += i * sizeof(NAME_TEXT);
}
NI void NAME(burn)(long n)
{
	for (long i = 0; i < n; i++)
		NAME(add)(i);
}
int main(int argc, char **argv)
{
	alarm(300);
	NAME(burn)(30000000);
	if (argc > 1 && rename(argv[1], "prog"))
		return 1;
	do
		NAME(burn)(30000000);
	while (argc == 1);
	return 0;
}
EOF
build() { # NAME OUT
  gcc -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls -Wl,--build-id \
    "-DNAME(function)=$1_##function" "-DNAME_TEXT=\"a name $1 $1 $2\"" -o "$2" prog.c
}
record() {
  perf --buildid-dir "${tmpdir}/cache" record -q -e cpu-clock:u -F 999 -g "$@" > log 2>&1
}
# The functions of the program, each once, and [unknown]
functions() {
  perf --buildid-dir "${tmpdir}/cache" script -i "$1" -F ip,sym,dso 2> log |
    sed -n 's/^[[:space:]]*[0-9a-f]* \(.*\) (.*prog\( (deleted)\)\?)$/\1/p' | sort -u | xargs
}
check() {
  if [ "$2" != "$3" ]
  then
    printf '%s [Failed] got:\n%s\nwanted:\n%s\n' "$1" "$2" "$3"
    cat log
    err=1
  fi
}

build old prog
build 'new' new
record --buildid-mmap -o none.data true || skip "no event, or no build IDs in mmap events"

record -o while.data ./prog new
check "replaced while it is recorded" "$(functions while.data)" '[unknown]'
check "replaced while it is recorded, said" \
  "$(grep -c "${tmpdir}/prog was replaced since" log || true)" 1

# The file was kept when recording began.
rm prog
build old prog
./prog &
pid=$!
build 'new' new
# The file is replaced only after the program has started.
until [ "$(readlink "/proc/${pid}/exe")" = "${tmpdir}/prog" ]
do
  sleep 0.1
done
mv new prog
for _ in {1..20}
do
  record -o before.data -p "${pid}" -- sleep 0.5
  found=$(functions before.data)
  # A few samples may not have all of them.
  [ "${found}" != "main old_add old_burn" ] || break
done
kill "${pid}"
pid=
check "replaced before it is recorded" "${found}" "main old_add old_burn"
# The new file can still be shown.
record -o new.data ./prog new || true
check "the new file" "$(functions new.data)" "main new_add new_burn"

# Files mapped under one name: by an inode whose numbers are the bytes of an ID, by that ID, by
# another one, by that of the file, and by one that is longer than the maximum
nm prog > symbols
readelf -lW prog > segments
readelf -n prog > notes
PYTHONDONTWRITEBYTECODE=1 python3 - "${libdir}" "${tmpdir}/prog" << 'EOF'
import sys
sys.path.insert(0, sys.argv[1])
from deferred_callchain_data import *
main = next(int(line.split()[0], 16) for line in open('symbols') if line.endswith(' main\n'))
code = next(line.split() for line in open('segments') if ' R E ' in line)
offset, start, size = (int(code[i], 16) for i in (1, 2, 4))
real = next(bytes.fromhex(line.split()[-1]) for line in open('notes') if 'Build ID' in line)
other = bytes([7] * 12 + [0] * 8)
data = Data()
pid = 5000000
path = sys.argv[2].encode() + b'\0'
path += bytes(-len(path) % 8)
data.comm(pid, 'prog')
for n, (bit, length, identity) in enumerate(
        ((0, 20, other), (1 << 14, 20, other), (1 << 14, 20, bytes([7] * 20)),
         (1 << 14, 20, real), (1 << 14, 255, real))):
    base = (n + 1) << 32
    data.event(10, MISC_USER | bit,
               data.pack('IIQQQBBH', pid, pid, base + start, (size + 0xfff) & ~0xfff, offset,
                         length, 0, 0) + identity + data.pack('II', 5, 2) + path +
               data.trailer(pid, 2, 0))
    data.sample(pid, 100 + n, [CONTEXT_USER, base + main], misc=MISC_USER, ip=base + main)
data.write('kinds.data')
EOF
check "inode and build IDs, names" \
  "$(perf --buildid-dir "${tmpdir}/cache" script -i kinds.data -F ip,sym 2> log |
     awk 'NF { print $2 }' | xargs)" "main [unknown] [unknown] main main"
check "inode and build IDs, files" \
  "$(perf --buildid-dir "${tmpdir}/cache" buildid-list -i kinds.data --with-hits 2> log |
     awk 'NF == 2 && /prog$/ { print $1 }' | sort -u | wc -l)" 3
check "inode of what has a build ID" \
  "$(perf --buildid-dir "${tmpdir}/cache" report -i kinds.data --mmaps 2> log |
     awk '/prog$/ && $(NF - 1) == 0' | wc -l)" 4

cleanup
exit "${err}"
