#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Names of a program in a container that has ended (exclusive)

# A file in a mount namespace alone disappears with it. perf keeps it while the program runs.

set -e

# shellcheck source=lib/tmpdir.sh
. "$(dirname "$0")/lib/tmpdir.sh"

sysctl=/proc/sys/kernel
pid=
kb=
paranoid=

at_end() {
  [ -z "${pid}" ] || kill "${pid}" 2> /dev/null || true
  [ -z "${kb}" ] || echo "${kb}" > "${sysctl}/perf_event_mlock_kb"
  [ -z "${paranoid}" ] || echo "${paranoid}" > "${sysctl}/perf_event_paranoid"
}

cd "${tmpdir}"
mkdir mnt root
command -v gcc > /dev/null || skip "no gcc"
own_mounts=(unshare --mount --propagation private)
"${own_mounts[@]}" mount -t tmpfs none mnt 2> /dev/null || skip "no mount namespaces"

cat > burn.c << 'EOF'
#include <unistd.h>
#define NI __attribute__((noinline, noipa))
volatile long x;
NI void add(long i)
{
	x += i;
}
NI void burn(long n)
{
	for (long i = 0; i < n; i++)
		add(i);
}
int main(int argc, char **argv)
{
	alarm(300);
	do
		burn(100000000);
	while (argc > 1);
	return 0;
}
EOF
gcc -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls -Wl,--build-id -o inside burn.c
# Run the program where nobody else sees it, with these arguments
cat > inside.sh << 'EOF'
mount -t tmpfs none mnt
cp inside mnt/inside
truncate -s "+${more:-0}" mnt/inside
exec mnt/inside "$@"
EOF
record() { # CACHE OPTION...
  perf --buildid-dir "${tmpdir}/$1" record -q -e cpu-clock:u -F 999 -g "${@:2}" > log 2>&1
}
# The functions in which the program spends its time, each once, and [unknown]
functions() { # CACHE
  perf --buildid-dir "${tmpdir}/$1" script -i "$1.data" --comms inside -F ip,sym,dso 2>> log |
    sed -n 's/^[[:space:]]*[0-9a-f]* \(add\|burn\|main\|\[unknown\]\) (.*inside)$/\1/p' |
    sort -u | xargs
}
check() {
  if [ "$2" != "$3" ]
  then
    printf '%s [Failed] got:\n%s\nwanted:\n%s\n' "$1" "$2" "$3"
    cat log
    err=1
  fi
}

perf record -q -o none.data --buildid-mmap true > log 2>&1 || skip "no build IDs in mmap events"

record kept -o kept.data -- "${own_mounts[@]}" sh inside.sh
check "of a container that has ended" "$(functions kept)" "add burn main"
record all -o all.data -a -- "${own_mounts[@]}" sh inside.sh
check "of a container that has ended, -a" "$(functions all)" "add burn main"
record other --no-keep-files -o other.data -- "${own_mounts[@]}" sh inside.sh
check "with --no-keep-files" "$(functions other)" "[unknown]"
more=1G record large -o large.data -- "${own_mounts[@]}" sh inside.sh
check "of more than 1 GB" "$(functions large)" "[unknown]"

# From a directory that only a chroot() has
"${own_mounts[@]}" sh inside.sh forever &
pid=$!
until [ "$(cat "/proc/${pid}/comm")" = inside ]
do
  sleep 0.1
done
cat > chroot.sh << 'EOF'
mount --rbind / root
mount -t tmpfs none root/mnt
mkdir root/mnt/only
exec chroot root sh -ec 'cd /mnt/only
  perf --buildid-dir cache record -g -o in.data -p "$1" sleep 1
  test -s in.data
  ls cache' sh "$1"
EOF
"${own_mounts[@]}" sh -e chroot.sh "${pid}" > log 2>&1 || check "in a chroot" failed ""
check "in a chroot, assertions" "$(grep -c assertion log || true)" 0

# Nobody waits long for the process that copies. It has the command line of its recording.
keeper_of() { # PID
  local other
  for other in /proc/[1-9]*
  do
    if [ "${other}" != "/proc/$1" ] && cmp -s "/proc/$1/cmdline" "${other}/cmdline"
    then
      echo "${other#/proc/}"
    fi
  done
}
perf --buildid-dir "${tmpdir}/hangs" record -o hangs.data -e cpu-clock:u -g -p "${pid}" > log 2>&1 &
recorder=$!
# With it started, the recording begins
until [ -s hangs.data ] || ! kill -0 "${recorder}" 2> /dev/null
do
  sleep 0.1
done
keeper=$(keeper_of "${recorder}")
kill -STOP "${keeper}" 2>> log || true
kill -INT "${recorder}" 2>> log || true
wait "${recorder}" || true
check "of a process that hangs" \
      "$(grep -c "Not all files of containers could be kept" log || true)" 1
check "of a process that hangs, ended" \
      "$(sed -n 's/^State:[[:space:]]*\([^Z]\).*/\1/p' "/proc/${keeper}/status" 2> /dev/null)" ""

# If a recording needs all the memory that its user may lock, it gets no further buffers. The root
# user of a user namespace is such a user.
user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
record_as_user() { # COMMAND...
  (ulimit -l 0 && "${user[@]}" "$@" perf --buildid-dir "${tmpdir}/user/cache" record -q \
     -o "${tmpdir}/user/data" -e cpu-clock:u -g true) > log 2>&1 && echo recorded
}
if [ ! -w "${sysctl}/perf_event_mlock_kb" ] ||
   ! "${user[@]}" test -x "$(command -v perf)" 2> /dev/null
then
  echo "of a user [Skip] not root, no setpriv, or perf cannot be reached"
else
  chmod 711 "${tmpdir}"
  mkdir user
  chown 65534 user
  kb=$(cat "${sysctl}/perf_event_mlock_kb")
  paranoid=$(cat "${sysctl}/perf_event_paranoid")
  # For each CPU, 16 pages of data and the control page. With -1, none of them counts.
  echo $((17 * $(getconf PAGESIZE) / 1024)) > "${sysctl}/perf_event_mlock_kb"
  echo 2 > "${sysctl}/perf_event_paranoid"
  check "of a user who may lock no more" "$(record_as_user || true)" recorded
  if "${user[@]}" unshare --user --map-root-user true 2> /dev/null
  then
    check "of root in a user namespace, likewise" \
	  "$(record_as_user unshare --user --map-root-user || true)" recorded
  else
    echo "of root in a user namespace [Skip] users may have none"
  fi
fi

cleanup
exit "${err}"
