#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Names and inlined functions of callers

# The address of a caller is where its call returns to, which need not be in the
# function that called, nor in the line of the call. The program is only looked at; the
# recording is made up.

set -e

# shellcheck source=lib/tmpdir.sh
. "$(dirname "$0")/lib/tmpdir.sh"

[ "$(uname -m)" = x86_64 ] || skip "code of x86-64 only"
needs gcc nm readelf addr2line python3

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
/* Code in two pieces, between which the function ends that has it inlined */
static inline __attribute__((always_inline)) int inlined(int x)
{
	int y;

	if (__builtin_expect(x < 100, 1))
		return 3 * x;
	y = leaf(x);
	asm volatile(".globl in_inlined\nin_inlined: nop");
	return y + 1;
}
__attribute__((noinline)) int outer(int x)
{
	return 2 *
	       inlined(x);
}
int main(int argc, char **argv)
{
	return outer(argc);
}
EOF
# build COMMAND... - the program, with main.c compiled by this; another directory's objects,
# which ccache may have kept, would name it
export CCACHE_DISABLE=1
build() {
  "$@" -O2 -c -o main.o main.c
  gcc -g -static -no-pie -o prog code.S main.o
  nm prog > symbols
  readelf -lW prog > segments
}
build gcc -g

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
    /usr/bin/awk 'NF { $1 = ""; sub(/^ /, ""); print }'
}

functions='leaf|calls_exit|next_function|handler|restorer|interrupted|no_restorer'
record leaf calls_exit+5 handler+5 restorer interrupted no_restorer+9
check "callers" "$(shown)" "$(printf '%s\n' leaf+0x0 calls_exit+0x5 handler+0x5 \
  restorer+0x0 interrupted+0x0 no_restorer+0x9)"
check "callers in the graph of perf report" \
  "$(perf report -i data -F overhead -g caller --stdio 2> /dev/null |
     grep -oE "(${functions})\$")" \
  "$(printf '%s\n' no_restorer interrupted restorer handler calls_exit leaf)"

# The innermost address is an interrupted one, whatever precedes it
record interrupted restorer handler+5
check "innermost" "$(shown)" "$(printf '%s\n' interrupted+0x0 restorer+0x0 handler+0x5)"

record leaf in_inlined main+1
check "inlined functions" "$(shown | sed 's/+0x[0-9a-f]*//')" \
  "$(printf '%s\n' leaf 'inlined (inlined)' outer main)"
check "no inlined functions" "$(shown --no-inline | sed 's/+0x[0-9a-f]*//')" \
  "$(printf '%s\n' leaf outer main)"
record leaf in_inlined main+1
lines=$(perf script -i data -F ip,sym,srcline --no-inline 2> /dev/null | grep -oE 'main.c:[0-9]+')
check "line of a call" "${lines%%[[:space:]]*}" \
  "main.c:$(grep -n 'y = leaf' main.c | cut -d : -f 1)"

# Debug information that addr2line of binutils does not read to the end. LLVM's is used if
# installed, otherwise libdw. A missing file is reported once.
mkdir bin
ln -s "$(command -v addr2line)" "$(command -v perf)" bin
for cc in 'gcc -g -gsplit-dwarf' 'clang -g -gsplit-dwarf' 'clang -g1'
do
  command -v "${cc%% *}" > /dev/null || continue
  rm -f ./*.dwo
  # shellcheck disable=SC2086 # several arguments
  build ${cc} 2> log
  record leaf in_inlined main+1
  for path in bin "${PATH}"
  do
    check "inlined functions, ${cc}, ${path}" \
      "$(PATH=${path}; shown | /usr/bin/sed 's/+0x[0-9a-f]*//')" \
      "$(printf '%s\n' leaf 'inlined (inlined)' outer main)"
  done
  [ -e main.dwo ] || continue
  rm main.dwo
  record leaf in_inlined main+1 outer+1
  PATH=bin perf script -i data -F ip,sym > out 2> log
  check "no .dwo, ${cc}" "$(grep -c "No inlined functions of .*/prog: .*main.dwo" log)" 1
done
build gcc -g

# addr2line that takes too long for the first two addresses of a file is not asked again.
mkdir slow
cat > slow/addr2line << EOF
#!/bin/sh
echo started >> "${tmpdir}/starts"
read -r line
printf '0x0000000000000000\n??\n??:0\n'
exec sleep 1000
EOF
chmod +x slow/addr2line
cp slow/addr2line slow/llvm-addr2line
record leaf in_inlined outer+1 main+1 calls_exit+5 handler+5
PATH="${tmpdir}/slow:${PATH}" perf script -i data -F ip,sym > out 2> log
check "slow addr2line, functions" "$(awk 'NF { print $2 }' out)" \
  "$(printf '%s\n' leaf outer{,} main calls_exit handler)"
check "slow addr2line, starts" "$(wc -l < starts)" 2
check "slow addr2line, said" "$(grep -c "takes longer than .* of ${tmpdir}/prog" log)" 1

# Build IDs of callers, whose files are needed to look at the data elsewhere
PYTHONDONTWRITEBYTECODE=1 python3 - "${libdir}" << 'EOF'
import sys
sys.path.insert(0, sys.argv[1])
from deferred_callchain_data import *
data = Data()
pid = 5000000
data.comm(pid, 'prog')
def mapping(start, path, byte):
    data.event(10, MISC_USER | 1 << 14,
               data.pack('IIQQQ', pid, pid, start, 0x1000, 0) + data.pack('BBH', 20, 0, 0) +
               bytes([byte] * 20) + data.pack('II', 5, 2) + path.ljust(24, b'\0') +
               data.trailer(pid, 2, 0))
mapping(U1 & ~0xfff, b'/nowhere/innermost', 1)
mapping(V1 & ~0xfff, b'/nowhere/caller', 2)
mapping(0x601000, b'/nowhere/kernels-caller', 3)
mapping(0x701000, b'/nowhere/unused', 4)
data.sample(pid, 100, [CONTEXT_USER, U1, V1], misc=MISC_USER, ip=U1)
data.sample(pid, 110, [CONTEXT_KERNEL, K1, CONTEXT_USER, 0x601100])
data.write('ids.data')
EOF
ids() { perf buildid-list --with-hits -i "$1" 2> /dev/null | sed -n 's,^.*/nowhere/,,p' | sort; }
check "build IDs of callers" "$(ids ids.data)" "$(printf '%s\n' caller innermost kernels-caller)"

# perf-archive is found if perf is started by a link.
ln -s "$(command -v perf)" linked-perf
check "perf archive by a link" \
  "$(PATH=/usr/bin:/bin ./linked-perf archive none.data 2>&1 | grep -c 'no build-ids found')" 1

if perf check feature -q rust_v0_demangle 2> /dev/null
then
  # Names of Rust: v0::shapes::spin, and one that would be longer than memory is: each pair
  # in it refers back to the one before, twice. addr2line must not see that.
  python3 > rust.S << 'EOF'
def back(at):
    digits = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'
    high = digits[(at - 1) // 62] if at > 62 else ''
    return 'B' + high + digits[(at - 1) % 62] + '_'
name, at = 'IC1aTmmE', 4
for _ in range(60):
    at, name = len(name), name + 'T' + 2 * back(at) + 'E'
for symbol in ('_RNvNtCs1234_2v06shapes4spin', '_R' + name + 'E'):
    print('.globl', symbol, '\n.type', symbol + ', @function\n' + symbol + ': call leaf\nnop')
    print('.size', symbol + ', . -', symbol)
EOF
  gcc -nostdlib -static -no-pie -Wl,-e,leaf -o prog code.S rust.S
  nm prog > symbols
  readelf -lW prog > segments
  long=$(grep -o '_RIC1a.*' symbols)
  record leaf _RNvNtCs1234_2v06shapes4spin+5 "${long}+5"
  check "names of Rust" "$(shown)" "$(printf '%s\n' leaf+0x0 v0::shapes::spin+0x5 "${long}+0x5")"
else
  echo "names of Rust [Skipped] no libiberty in perf"
fi

cleanup
exit "${err}"
