#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# perf top ends when told to

set -e

# The thread that processes samples is held up between its check whether perf top ends and
# its wait for the next ones: it must not miss an end in between.

# shellcheck source=lib/tmpdir.sh
. "$(dirname "$0")/lib/tmpdir.sh"

command -v cc > /dev/null || skip "no C compiler"

loaded="${tmpdir}/loaded"
late="${tmpdir}/late"
over="${tmpdir}/over"

perf record -q -a -e cpu-clock -o "${tmpdir}/perf.data" -- true > /dev/null 2>&1 ||
  skip "can't record the whole system"

# A priority that is refused ends it, too, without a key.
mkfifo "${tmpdir}/keys"
status=0
timeout -s KILL 30 perf top --stdio -d 1 -e cpu-clock -r 1000 <> "${tmpdir}/keys" > "${log}" 2>&1 ||
  status=$?
if [ "${status}" -eq 0 ] || [ "${status}" -eq 137 ]
then
  echo "perf top -r 1000 [Failed] exit status ${status}"
  tail -n 20 "${log}"
  cleanup
  exit 1
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

static void note(const char *name)
{
	close(open(getenv(name) ?: "/dev/null", O_CREAT | O_WRONLY, 0600));
}

__attribute__((constructor)) static void load(void)
{
	note("LOADED");
}

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	wait_fn *fn = NULL;

#ifdef __GLIBC__
	/* Before glibc 2.36 dlsym() finds the oldest version, for another pthread_cond_t. */
	fn = dlvsym(RTLD_NEXT, "pthread_cond_wait", "GLIBC_2.3.2");
#endif
	if (!fn)
		fn = dlsym(RTLD_NEXT, "pthread_cond_wait");
	waited_with = mutex;
	return fn(cond, mutex);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	static lock_fn *fn;

	if (!fn)
		fn = dlsym(RTLD_NEXT, "pthread_mutex_lock");
	if (mutex == waited_with) {
		note("LATE");
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

# A static perf, or one with capabilities, does not load it.
LOADED="${loaded}" LD_PRELOAD="${tmpdir}/late.so" perf version > /dev/null 2>&1 || true
if [ ! -e "${loaded}" ]
then
  echo "[Skip] can't load a shared library into perf"
  cleanup
  exit 2
fi

# More than one key, since perf top throws away the one that it finds when it starts
quit_when_late() {
  until [ -e "${over}" ]
  do
    sleep 0.2
    [ ! -e "${late}" ] || echo q
  done 2> /dev/null
}

top() {
  local rc=0

  LATE="${late}" LD_PRELOAD="${tmpdir}/late.so" \
    timeout -s KILL 90 perf top --stdio -d 1 -e cpu-clock -F 99 > "${log}" 2>&1 || rc=$?
  : > "${over}"
  return "${rc}"
}

status=0
quit_when_late | top || status=$?
if [ "${status}" -ne 0 ] || [ ! -e "${late}" ]
then
  echo "perf top [Failed] exit status ${status}"
  tail -n 20 "${log}"
  cleanup
  exit 1
fi

echo "perf top [Success]"
cleanup
