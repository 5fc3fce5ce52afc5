#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# perf inject --guest-data, --vm-time-correlation

set -e

# shellcheck source=lib/tmpdir.sh
. "$(dirname "$0")/lib/tmpdir.sh"

host="${tmpdir}/host.data"
guest="${tmpdir}/guest.data"
merged="${tmpdir}/merged.data"

# check <what> <expected> <actual>
check() {
  if [ "$2" = "$3" ]
  then
    echo "$1 [Success]"
  else
    echo "$1 [Failed expected '$2', got '$3']"
    [ ! -e "${log}" ] || tail -n 20 "${log}"
    err=1
  fi
}

record() {
  perf record --sample-identifier -e task-clock -o "$@" > /dev/null 2> "${log}"
}

# count <file> <record> [<perf script option>...]
count() {
  local file=$1 record=$2
  shift 2
  perf script -i "${file}" --show-task-events --show-mmap-events "$@" 2> /dev/null |
    grep -c "${record}" || true
}

# The host: a process whose thread has the name of QEMU's first VCPU. The guest:
# the recording of the kernel under test on its first CPU.
# shellcheck disable=SC2016 # expands in the inner shell
if ! record "${host}" -- bash -c 'printf "CPU 0/KVM" > /proc/$$/comm; true' ||
   ! record "${guest}" -C 0 -- taskset -c 0 true
then
  skip "can't record task-clock on CPU 0"
fi
vm=$(perf script -i "${host}" --show-task-events 2> /dev/null |
     sed -n 's|.*PERF_RECORD_COMM: CPU 0/KVM:\([0-9]*\)/.*|\1|p' | head -n 1)

rc=0
perf inject -i "${host}" -o "${merged}" "--guest-data=${guest},${vm}" > "${log}" 2>&1 || rc=$?
check "perf inject --guest-data" 0 "${rc}"
for record in COMM MMAP2 FORK EXIT
do
  nr_host=$(count "${host}" "PERF_RECORD_${record}")
  nr_guest=$(count "${guest}" "PERF_RECORD_${record}")
  check "PERF_RECORD_${record} of host and guest" "$((nr_host + nr_guest))" \
    "$(count "${merged}" "PERF_RECORD_${record}")"
done
check "Records of the VM" "$(count "${guest}" PERF_RECORD_EXIT)" \
  "$(count "${merged}" "^VM: *${vm} VCPU:000 .*PERF_RECORD_EXIT" -F machine_pid,vcpu,comm,tid)"

rc=0
perf inject -i "${host}" --vm-time-correlation=dry-run > "${log}" 2>&1 || rc=$?
check "perf inject --vm-time-correlation" 0 "${rc}"

cleanup
exit "${err}"
