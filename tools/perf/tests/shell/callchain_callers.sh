#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Names and inlined functions of callers

# The address of a caller is where its call returns to, which need not be in the
# function that called, nor in the line of the call. The program is only looked at; the
# recording is made up.

set -e

libdir="$(cd "$(dirname "$0")/lib" && pwd)"

if [ "$(uname -m)" != x86_64 ]
then
  echo "[Skip] code of x86-64 only"
  exit 2
fi
for tool in gcc nm readelf addr2line python3
do
  if ! command -v "${tool}" > /dev/null
  then
    echo "[Skip] no ${tool}"
    exit 2
  fi
done

tmpdir=$(mktemp -d /tmp/__perf_test.callers.XXXXX)
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

cd "${tmpdir}"
cat > code.S << 'EOF'
	.section .note.GNU-stack,"",@progbits
	.text
	.macro function name
	.globl \name
	.type \name, @function
\name:
	.endm
	.macro end name
	.size \name, . - \name
	.endm
	function leaf
	nop
	end leaf
	/* Its call does not return, and is the last that it has. */
	function calls_exit
	call leaf
	end calls_exit
	function next_function
	nop
	end next_function
	function handler
	call leaf
	nop
	end handler
	function restorer
	mov $15, %rax
	syscall
	end restorer
	/* What a signal interrupted before its first instruction */
	function interrupted
	nop
	end interrupted
	/* It is not what its beginning looks like. */
	function no_restorer
	mov $1, %rax
	syscall
	end no_restorer
EOF
cat > main.c << 'EOF'
int leaf(int x);
static inline __attribute__((always_inline)) int inlined(int x)
{
	int y = leaf(x);
	asm volatile(".globl in_inlined\nin_inlined: nop");
	return y + 1;
}
int outer(int x)
{
	return 2 *
	       inlined(x);
}
int main(int argc, char **argv)
{
	return outer(argc);
}
EOF
gcc -O2 -g -static -no-pie -o prog code.S main.c
nm prog > symbols
readelf -lW prog > segments

# record ADDRESS... - one sample with these, each SYMBOL or SYMBOL+NUMBER
record() {
  PYTHONDONTWRITEBYTECODE=1 python3 - "${libdir}" "$@" << 'EOF'
import os, sys
sys.path.insert(0, sys.argv[1])
from deferred_callchain_data import *
symbols = {}
for line in open('symbols'):
    fields = line.split()
    if len(fields) == 3:
        symbols[fields[2]] = int(fields[0], 16)
def value(text):
    name, _, offset = text.partition('+')
    return symbols[name] + int(offset or '0', 0)
for line in open('segments'):
    fields = line.split()
    if fields[:1] == ['LOAD'] and 'E' in fields[6:8]:
        offset, start, size = (int(fields[i], 16) for i in (1, 2, 4))
data = Data()
pid = 5000000
path = os.path.realpath('prog').encode() + b'\0'
path += bytes(-len(path) % 8)
data.comm(pid, 'prog')
data.event(1, MISC_USER, data.pack('IIQQQ', pid, pid, start, (size + 0xfff) & ~0xfff, offset) +
           path + data.trailer(pid, 2, 0))
ips = [value(text) for text in sys.argv[2:]]
data.sample(pid, 100, [CONTEXT_USER] + ips, misc=MISC_USER, ip=ips[0])
data.write('data')
EOF
}

# check NAME GOT WANTED
check() {
  if [ "$2" != "$3" ]
  then
    printf '%s [Failed] got:\n%s\nwanted:\n%s\n' "$1" "$2" "$3"
    err=1
  fi
}

shown() { # OPTION... - the lines of the only sample, without addresses
  perf script -i data -F ip,sym,symoff "$@" 2> /dev/null |
    awk 'NF { $1 = ""; sub(/^ /, ""); print }'
}

functions='leaf|calls_exit|next_function|handler|restorer|interrupted|no_restorer'
record leaf calls_exit+5 handler+5 restorer interrupted no_restorer+9
check "callers" "$(shown)" "$(printf '%s\n' leaf+0x0 calls_exit+0x5 handler+0x5 \
  restorer+0x0 interrupted+0x0 no_restorer+0x9)"
check "callers in the graph of perf report" \
  "$(perf report -i data -F overhead -g caller --stdio 2> /dev/null |
     grep -oE "(${functions})\$")" \
  "$(printf '%s\n' no_restorer interrupted restorer handler calls_exit leaf)"

# Innermost is an interrupted address, whatever is before it
record interrupted restorer handler+5
check "innermost" "$(shown)" "$(printf '%s\n' interrupted+0x0 restorer+0x0 handler+0x5)"

record leaf in_inlined main+1
check "inlined functions" "$(shown | sed 's/+0x[0-9a-f]*//')" \
  "$(printf '%s\n' leaf 'inlined (inlined)' outer main)"
check "no inlined functions" "$(shown --no-inline | sed 's/+0x[0-9a-f]*//')" \
  "$(printf '%s\n' leaf outer main)"
lines=$(perf script -i data -F ip,sym,srcline --no-inline 2> /dev/null | grep -oE 'main.c:[0-9]+')
check "line of a call" "${lines%%[[:space:]]*}" \
  "main.c:$(grep -n 'y = leaf' main.c | cut -d : -f 1)"

cleanup
exit "${err}"
