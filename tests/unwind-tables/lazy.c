// SPDX-License-Identifier: GPL-2.0
/*
 * lazy - makes children all the time that call functions of the C library for the
 * first time: ld.so binds them, on the stack inner(), outer(), main(). Has to be
 * linked with -z lazy, and compiled with -fno-builtin.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long sink;
/* Not bound lazily, since it is called by its address */
static void (*volatile leave)(int) = _exit;

__attribute__((noinline)) static void inner(void)
{
	char text[] = "1,2";
	int old;

	sink += getppid();
	sink += getuid();
	sink += geteuid();
	sink += getgid();
	sink += getegid();
	sink += getsid(0);
	sink += atol(text);
	sink += lrand48();
	sink += mrand48();
	sink += random();
	sink += pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	free(strdup(text));
	sink += !strtok(text, ",");
}

__attribute__((noinline)) static void outer(void)
{
	inner();
	sink++;
}

int main(void)
{
	pid_t pid;

	for (;;) {
		pid = fork();
		if (pid < 0)
			return 1;
		if (!pid) {
			outer();
			leave(0);
		}
		waitpid(pid, NULL, 0);
		usleep(20000);
	}
}
