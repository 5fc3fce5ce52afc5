// SPDX-License-Identifier: GPL-2.0
/*
 * Messages: a line each, on stderr. The service runs for months and is told about
 * files by processes that mean no good, so it says only so much in a minute.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "unwind-tables.h"

#define LINES_A_MINUTE	20

/* In UTF-8, U+0080 to U+009f are control characters as well. */
void make_printable(char *text)
{
	unsigned char *c;

	for (c = (unsigned char *)text; *c; c++)
		if (*c < ' ' || *c == 0x7f || (*c == 0xc2 && c[1] < 0xa0))
			*c = '?';
}

static void put_line(int level, const char *format, va_list args)
{
	static int with_level = -1;
	char text[1024];

	if (with_level < 0)
		with_level = !!getenv("JOURNAL_STREAM");
	vsnprintf(text, sizeof(text), format, args);
	make_printable(text);
	if (with_level)
		fprintf(stderr, "<%d>%s\n", level, text);
	else
		fprintf(stderr, "unwind-tables: %s\n", text);
}

static void __printf(2, 3) put(int level, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	put_line(level, format, args);
	va_end(args);
}

void log_line(int level, const char *format, ...)
{
	static unsigned int lines, left_out;
	static time_t since;
	struct timespec now;
	va_list args;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec - since >= 60) {
		if (left_out)
			put(LOG_WARNING, "%u messages were left out", left_out);
		since = now.tv_sec;
		lines = 0;
		left_out = 0;
	}
	if (lines++ >= LINES_A_MINUTE) {
		left_out++;
		return;
	}
	va_start(args, format);
	put_line(level, format, args);
	va_end(args);
}

void error_line(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	put_line(LOG_ERR, format, args);
	va_end(args);
}

/* The kernel lists the device, with its number, wherever /dev is from. */
void no_device(const char *device, int error)
{
	char line[128], name[64];
	int minor = -1, number;
	FILE *misc;

	misc = fopen("/proc/misc", "re");
	if (!misc) {
		error_line("%s: %s; cannot tell whether the kernel has the device: /proc/misc: %s",
			   device, strerror(error), strerror(errno));
		return;
	}
	while (fgets(line, sizeof(line), misc))
		if (sscanf(line, "%d %63s", &number, name) == 2 &&
		    !strcmp(name, "unwind_tables"))
			minor = number;
	fclose(misc);
	if (minor < 0)
		error_line("no %s: this kernel was built without CONFIG_UNWIND_USER_TABLE",
			   device);
	else
		error_line("%s: %s, but the kernel has the device, number 10:%d; %s",
			   device, strerror(error), minor,
			   "mount devtmpfs on /dev, or pass the device into the container");
}
