// SPDX-License-Identifier: GPL-2.0
/*
 * Messages: a line each, on stderr. share.c limits the lines about the files of others.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unwind-tables.h"

/* In UTF-8, U+0080 to U+009f are control characters as well. */
void log_printable(char *text)
{
	unsigned char *c;

	for (c = (unsigned char *)text; *c; c++)
		if (*c < ' ' || *c == 0x7f || (*c == 0xc2 && c[1] < 0xa0))
			*c = '?';
}

void log_line(int level, const char *format, ...)
{
	static int with_level = -1;
	char text[1024];
	va_list args;

	if (with_level < 0)
		with_level = !!getenv("JOURNAL_STREAM");
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	log_printable(text);
	if (with_level)
		fprintf(stderr, "<%d>%s\n", level, text);
	else
		fprintf(stderr, "unwind-tables: %s\n", text);
}

/* The kernel lists the device, with its number, wherever /dev is from. */
void log_no_device(const char *device, int error)
{
	char line[128], name[64];
	int minor = -1, number;
	FILE *misc;

	misc = fopen("/proc/misc", "re");
	if (!misc) {
		log_error("%s: %s; cannot tell whether the kernel has the device: /proc/misc: %s",
			  device, strerror(error), strerror(errno));
		return;
	}
	while (fgets(line, sizeof(line), misc))
		if (sscanf(line, "%d %63s", &number, name) == 2 &&
		    !strcmp(name, "unwind_tables"))
			minor = number;
	fclose(misc);
	if (minor < 0)
		log_error("no %s: this kernel was built without CONFIG_UNWIND_USER_TABLE",
			  device);
	else
		log_error("%s: %s, but the kernel has the device, number 10:%d; %s",
			  device, strerror(error), minor,
			  "mount devtmpfs on /dev, or pass the device into the container");
}
