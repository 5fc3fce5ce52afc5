#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# perf script report flamegraph

set -e

# shellcheck source=lib/tmpdir.sh
. "$(dirname "$0")/lib/tmpdir.sh"

title="perf script report flamegraph"
script="${PERF_EXEC_PATH:-$(perf --exec-path)}/scripts/python/flamegraph.py"

if ! command -v python3 > /dev/null || [ ! -e "${script}" ] ||
   ! perf check feature -q libpython 2> /dev/null
then
  skip "no python3, no flamegraph.py or no Python in perf"
fi

mkdir "${tmpdir}/empty" "${tmpdir}/bin"
cd "${tmpdir}/empty"

# A command whose name would end the page's script; a sample in the kernel and one
# in user space
PYTHONDONTWRITEBYTECODE=1 python3 - "${libdir}" "${tmpdir}/some.data" << 'EOF'
import sys
sys.path.insert(0, sys.argv[1])
from deferred_callchain_data import *
data = Data()
data.comm(10, '</script><!--')
data.sample(10, 100, [CONTEXT_KERNEL, K1, CONTEXT_USER, U1, U2])
data.sample(10, 110, [CONTEXT_USER, U1, U2], misc=MISC_USER, ip=U1)
data.write(sys.argv[2])
# Another event, which was named later, but seen earlier
data.attrs.append((SW_PAGE_FAULTS, data.attrs[0][1], [31]))
data.event(RECORD_SAMPLE, MISC_USER, data.pack('QQIIQIIQ', 31, U1, 10, 10, 90, 0, 0, 2) +
           data.pack('2Q', CONTEXT_USER, U1))
data.write(sys.argv[2] + '.two')
EOF
echo '<script>[/** @flamegraph_json **/]; [/** @options_json **/]</script>' > "${tmpdir}/template"

# There is no perf.data where it runs: it has to read the file that is named.
perf script report flamegraph -i "${tmpdir}/some.data" -f json -o "${tmpdir}/json" \
  > "${log}" 2>&1 || failed "exit status $?"
shown() { # FILE - its nodes, as name/kind and number of samples
  python3 -c '
import json, sys
def line(node):
    text = node["n"] + "/" + node["l"] + (" %d" % node["v"] if node["v"] else "")
    return ": ".join([text] + [line(child) for child in node["c"]])
print(line(json.load(open(sys.argv[1]))))' "$1"
}
want='all/root: </script><!--/: [unknown]/: [unknown]/ 1: [unknown]/kernel 1'
got=$(shown "${tmpdir}/json")
[ "${got}" = "${want}" ] || failed "stacks: ${got}"

# What has a bar of its own
for bar in 'pid:</script><!-- (10)' 'comm:</script><!--' 'cgroup:no cgroup was recorded'
do
  perf script report flamegraph -i "${tmpdir}/some.data" -f json -o "${tmpdir}/json" \
    --by "${bar%%:*}" > "${log}" 2>&1 || failed "${bar%%:*}: exit status $?"
  got=$(shown "${tmpdir}/json")
  [ "${got}" = "all/root: ${bar#*:}/: [unknown]/: [unknown]/ 1: [unknown]/kernel 1" ] ||
    failed "${bar%%:*}: stacks ${got}"
done

# One event at a time: what the user has chosen, or else the first one, and this is said
perf script report flamegraph -i "${tmpdir}/some.data.two" -f json -o "${tmpdir}/json" \
  > "${log}" 2>&1 || failed "two events: exit status $?"
got=$(shown "${tmpdir}/json")
[ "${got}" = "${want}" ] || failed "two events: stacks ${got}"
grep -q 'samples of task-clock[:HG]* only; .*: page-faults' "${log}" ||
  failed "two events: the choice is not said"
perf script report flamegraph -i "${tmpdir}/some.data.two" -f json -o "${tmpdir}/json" \
  --event page-faults > "${log}" 2>&1 || failed "an event was chosen: exit status $?"
got=$(shown "${tmpdir}/json")
[ "${got}" = 'all/root: </script><!--/: [unknown]/ 1' ] ||
  failed "an event was chosen: stacks ${got}"
# Folded text, too
perf script report stackcollapse -i "${tmpdir}/some.data.two" > "${tmpdir}/folded" 2> "${log}" ||
  failed "two events: stackcollapse: exit status $?"
[ "$(awk '{ n += $NF } END { print n }' "${tmpdir}/folded")" = 2 ] ||
  failed "two events: stackcollapse adds them up"

# A program that is not here any more: one row tells. No process has this number, in
# whose namespaces perf would look for the file.
PYTHONDONTWRITEBYTECODE=1 python3 - "${libdir}" "${tmpdir}/gone.data" << 'EOF'
import sys
sys.path.insert(0, sys.argv[1])
from deferred_callchain_data import *
data = Data()
pid = 5000000
data.comm(pid, 'prog')
data.event(1, MISC_USER, data.pack('IIQQQ', pid, pid, U1 & ~0xfff, 0x1000, 0) +
           b'/nowhere/prog'.ljust(16, b'\0') + data.trailer(pid, 2, 0))
data.sample(pid, 100, [CONTEXT_USER, U1, U2], misc=MISC_USER, ip=U1)
data.write(sys.argv[2])
EOF
perf script report flamegraph -i "${tmpdir}/gone.data" -f json -o "${tmpdir}/json" \
  > "${log}" 2>&1 || failed "file is gone: exit status $?"
got=$(shown "${tmpdir}/json")
[ "${got}" = 'all/root: prog/: [prog, no file /nowhere/prog]/ 1' ] ||
  failed "file is gone: ${got}"

# Without a template, and nobody to ask: at the end of the input, with a closed one,
# and with one that cannot be read, as nohup makes it
for stdin in '< /dev/null' '<&-' '0> /dev/null'
do
  if eval "perf script report flamegraph -i '${tmpdir}/some.data' --template /nowhere" \
       "-o '${tmpdir}/page' ${stdin}" > "${log}" 2>&1
  then
    failed "without a template, ${stdin}: exit status 0"
  fi
  grep -q "template '/nowhere'" "${log}" || failed "without a template, ${stdin}: no reason"
  [ "$(grep -cE 'Traceback|Abort|Fatal' "${log}")" -eq 0 ] ||
    failed "without a template, ${stdin}: no clean end"
  [ ! -e "${tmpdir}/page" ] || failed "without a template, ${stdin}: a page"
done

for args in "-i ${tmpdir}/some.data" "-i${tmpdir}/some.data" "--input=${tmpdir}/some.data" \
            "--input ${tmpdir}/some.data"
do
  rm -f "${tmpdir}/page"
  # shellcheck disable=SC2086 # several arguments
  perf script report flamegraph ${args} --template "${tmpdir}/template" -o "${tmpdir}/page" \
    > "${log}" 2>&1 || failed "${args}: exit status $?"
  grep -q '# hostname : host\\n' "${tmpdir}/page" || failed "${args}: no header of the file"
done
# A template of the directory where it runs, whose name is no URL
cp "${tmpdir}/template" 'a %41 b'
rm "${tmpdir}/page"
perf script report flamegraph -i "${tmpdir}/some.data" --template 'a %41 b' -o "${tmpdir}/page" \
  > "${log}" 2>&1 || failed "relative template: exit status $?"
rm 'a %41 b'
[ "$(grep -c 'd3js' "${tmpdir}/page")" -eq 0 ] || failed "the template was not found"
[ "$(grep -o '</script' "${tmpdir}/page" | wc -l)" -eq 1 ] || failed "a name ends the script"
[ "$(grep -c '<!--' "${tmpdir}/page")" -eq 0 ] || failed "a name begins a comment"

grep -q '"event": "task-clock' "${tmpdir}/page" || failed "the page does not know the event"

# Where perf has another name, and no perf is in PATH
cp "$(command -v perf)" "${tmpdir}/bin/other"
rm "${tmpdir}/page"
PATH=/usr/bin:/bin "${tmpdir}/bin/other" script -i "${tmpdir}/some.data" -s "${script}" -- \
  -i "${tmpdir}/some.data" --template "${tmpdir}/template" -o "${tmpdir}/page" \
  > "${log}" 2>&1 || failed "another name: exit status $?"
grep -q '# hostname : host\\n' "${tmpdir}/page" || failed "another name: no header of the file"

echo "perf script report flamegraph [Success]"
cleanup
