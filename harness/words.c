// SPDX-License-Identifier: GPL-2.0
/*
 * Counts the words of a file in a tree, a few bytes at a time: the program that
 * make run records.
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>

struct word { char text[24]; unsigned int count; };

static int by_text(const void *a, const void *b)
{
	const char *x = a, *y = b;

	for (; *x && *x == *y; x++, y++)
		;
	return *x - *y;
}

__attribute__((noinline)) static int read_word(FILE *in, struct word *word)
{
	return fscanf(in, "%23s", word->text) == 1;
}

__attribute__((noinline)) static void *count_words(FILE *in)
{
	struct word *word, **found;
	void *tree = NULL;

	while ((word = calloc(1, sizeof(*word))) && read_word(in, word)) {
		found = tsearch(word, &tree, by_text);
		(*found)->count++;
	}
	return tree;
}

int main(int argc, char **argv)
{
	FILE *in = argc == 2 ? fopen(argv[1], "r") : NULL;

	if (!in)
		return 1;
	setvbuf(in, NULL, _IOFBF, 16);
	return count_words(in) ? 0 : 2;
}
