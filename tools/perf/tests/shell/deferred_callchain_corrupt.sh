#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Deferred user callchains in truncated and corrupted perf.data

# perf may refuse such a file, but it must not crash or hang. Build it with
# EXTRA_CFLAGS=-fsanitize=address to see more.

set -e

# shellcheck source=lib/tmpdir.sh
. "$(dirname "$0")/lib/tmpdir.sh"

generator="${libdir}/deferred_callchain_data.py"
# More than the default to look for new ways to break it
seeds=${PERF_TEST_SEEDS:-30}

PYTHON=${PYTHON:-$(command -v python3 || true)}
[ -n "${PYTHON}" ] || skip "no python3 to write perf.data files"
runs=0

# Leaks after an error do not matter here
export ASAN_OPTIONS="${ASAN_OPTIONS:+${ASAN_OPTIONS}:}detect_leaks=0:exitcode=99"

# survives <description> <perf arguments, with input from stdin>
survives() {
  local what="$1" rc=0

  shift
  runs=$((runs + 1))
  timeout 60 perf "$@" > "${tmpdir}/out" 2> "${tmpdir}/err" || rc=$?
  # 124: timed out, above 128: a signal; perf itself exits with errno values, or 255
  case ${rc} in
  99|124|132|134|135|136|137|139)
    echo "${what}: perf $* [Failed] status ${rc}"
    grep -A 8 "ERROR: AddressSanitizer" "${tmpdir}/err" || true
    err=1
    ;;
  esac
}

all_tools() {
  survives "$1" script -i "$2"
  survives "$1" script --no-merge-callchains -i "$2"
  survives "$1" script -i - < "$2"
}

test_truncated() {
  local kind="$1" file="${tmpdir}/whole.data" cut="${tmpdir}/cut.data" size

  "${PYTHON}" "${generator}" "${kind}" "${file}"
  size=$(stat -c %s "${file}")
  while [ "${size}" -gt 0 ]
  do
    size=$((size - 31))
    [ "${size}" -gt 0 ] || break
    "${PYTHON}" "${generator}" truncate "${file}" "${size}" "${cut}"
    survives "${kind}, ${size} bytes" script -i "${cut}"
    survives "${kind}, ${size} bytes" script -i - < "${cut}"
  done
}

test_mangled() {
  local kind="$1" file="${tmpdir}/whole.data" bad="${tmpdir}/bad.data" seed

  "${PYTHON}" "${generator}" "${kind}" "${file}"
  for seed in $(seq "${seeds}")
  do
    "${PYTHON}" "${generator}" mangle "${file}" "${seed}" "${bad}"
    all_tools "${kind}, seed ${seed}" "${bad}"
    if [ $((seed % 5)) -eq 0 ]
    then
      survives "${kind}, seed ${seed}" report --stdio -i "${bad}"
      survives "${kind}, seed ${seed}" report -D -i "${bad}"
      survives "${kind}, seed ${seed}" inject --merge-callchains -i "${bad}" -o "${tmpdir}/inj"
      survives "${kind}, seed ${seed}" inject -b --merge-callchains < "${bad}"
    fi
  done
}

test_summary() {
  local file="${tmpdir}/whole.data" bad="${tmpdir}/bad.data" seed

  "${PYTHON}" "${generator}" cut-known "${file}"
  for seed in $(seq "${seeds}")
  do
    "${PYTHON}" "${generator}" mangle-summary "${file}" "${seed}" "${bad}"
    survives "summary, seed ${seed}" report --header-only -i "${bad}"
    survives "summary, seed ${seed}" inject --merge-callchains -i "${bad}" -o "${tmpdir}/inj"
  done
}

test_stray_attr() {
  local file="${tmpdir}/whole.data"

  "${PYTHON}" "${generator}" stray-attr "${file}"
  all_tools "attribute among events" "${file}"
  survives "attribute among events" inject --merge-callchains -i "${file}" -o -
}

test_truncated merge
test_truncated merge-pipe
for kind in merge merge-pipe merge-big-endian newer-big-endian-pipe invalid missing no-id-all cut
do
  test_mangled "${kind}"
done
test_summary
test_stray_attr

echo "${runs} runs of perf"
cleanup
exit ${err}
