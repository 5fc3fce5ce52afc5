// SPDX-License-Identifier: GPL-2.0
/*
 * Messages: a line each, on stderr. The service runs for months and is told about
 * files by processes that mean no good, so it says only so much in a minute.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "unwind-tables.h"

#define LINES_A_MINUTE	20

static void put_line(int level, const char *format, va_list args)
{
	static int with_level = -1;
	char text[1024], *c;

	if (with_level < 0)
		with_level = !!getenv("JOURNAL_STREAM");
	vsnprintf(text, sizeof(text), format, args);
	for (c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
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
