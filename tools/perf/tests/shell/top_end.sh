#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# perf top ends when told to

set -e

# The thread that processes samples is held up between its look at whether perf top
# ends and its wait for the next ones: it must not miss that it ends in between.

if ! command -v cc > /dev/null
then
  echo "[Skip] no C compiler"
  exit 2
fi

tmpdir=$(mktemp -d /tmp/__perf_test.top_end.XXXXX)
log="${tmpdir}/log"
late="${tmpdir}/late"

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

if ! perf record -q -a -e cpu-clock -o "${tmpdir}/perf.data" -- true > /dev/null 2>&1
then
  echo "[Skip] can't record the whole system"
  cleanup
  exit 2
fi

cat > "${tmpdir}/late.c" << EOF
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

typedef int wait_fn(pthread_cond_t *cond, pthread_mutex_t *mutex);
typedef int lock_fn(pthread_mutex_t *mutex);

static __thread pthread_mutex_t *waited_with;

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	wait_fn *fn = dlsym(RTLD_NEXT, "pthread_cond_wait");

	waited_with = mutex;
	return fn(cond, mutex);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	static lock_fn *fn;

	if (!fn)
		fn = dlsym(RTLD_NEXT, "pthread_mutex_lock");
	if (mutex == waited_with) {
		close(open(getenv("LATE"), O_CREAT | O_WRONLY, 0600));
		sleep(3);
	}
	return fn(mutex);
}
EOF
if ! cc -D_GNU_SOURCE -shared -fPIC -o "${tmpdir}/late.so" "${tmpdir}/late.c" -ldl 2> "${log}"
then
  echo "[Skip] can't build a shared library"
  cleanup
  exit 2
fi

quit_when_late() {
  for _ in $(seq 600)
  do
    [ ! -e "${late}" ] || break
    sleep 0.1
  done
  echo q
}

status=0
quit_when_late | LATE="${late}" LD_PRELOAD="${tmpdir}/late.so" \
  timeout -s KILL 90 perf top --stdio -d 1 -e cpu-clock -F 99 > "${log}" 2>&1 || status=$?
if [ "${status}" -ne 0 ] || [ ! -e "${late}" ]
then
  echo "perf top [Failed] exit status ${status}"
  tail -n 20 "${log}"
  cleanup
  exit 1
fi

echo "perf top [Success]"
cleanup
