# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For tests: a directory, which is removed in the end, and how a test ends. One that has
# more to undo has an at_end() of its own.

# shellcheck disable=SC2034 # for those who include this
libdir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tmpdir=$(mktemp -d "/tmp/__perf_test.$(basename "$0" .sh).XXXXX")
log="${tmpdir}/log"
# shellcheck disable=SC2034
err=0
# Of a test of one thing, for failed()
title=

at_end() {
  :
}

cleanup() {
  at_end
  rm -rf "${tmpdir}"
  trap - EXIT TERM INT
}

trap_cleanup() {
  echo "Unexpected signal in ${FUNCNAME[1]}"
  cleanup
  exit 1
}
trap trap_cleanup EXIT TERM INT

skip() {
  echo "[Skip] $1"
  cleanup
  exit 2
}

# needs <program>...
needs() {
  local program

  for program
  do
    command -v "${program}" > /dev/null || skip "no ${program}"
  done
}

# failed <reason> - ends the test
failed() {
  echo "${title} [Failed] $1"
  [ ! -e "${log}" ] || tail -n 20 "${log}"
  cleanup
  exit 1
}
