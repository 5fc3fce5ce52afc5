// SPDX-License-Identifier: GPL-2.0
/*
 * unwind-tables show: which code of a file has no rules, and in which functions it is;
 * or the rows of its table
 */
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/unwind_table.h>

#include "unwind-table.h"
#include "unwind-tables.h"

/* Functions that are printed one by one */
#define MAX_FUNCTIONS	20
#define MAX_ALIGNMENT	64

/* All of these are offsets in the file. */
struct symbol {
	__u64 start;
	__u64 end;
	const char *name;
	bool sized;		/* The file says where it ends. */
	bool function;
};

/* Code without rules, all of it in one function, or without a name */
struct piece {
	__u64 start;
	__u64 end;
	__u64 bytes;		/* less than end - start once several are joined */
	__u64 samples;
	const struct symbol *symbol;
};

struct show {
	const struct unwind_table *table;
	GElf_Phdr *segments;	/* executable ones */
	size_t nr_segments;
	Dwfl *dwfl;
	struct symbol *symbols;
	size_t nr_symbols;
	struct piece *pieces;	/* by offset */
	size_t nr_pieces;
	size_t max_pieces;
	bool no_memory;
	/* The name of the file in perf.data, and the user stacks that are cut there */
	char name[PATH_MAX];
	__u64 cut;
	__u64 cut_here;
	__u64 cut_at_rules;
};

static bool parse_offset(const char *text, char **end, __u64 *offset)
{
	errno = 0;
	*offset = strtoull(text, end, 16);
	return !errno && *end != text && *text != '-' && *text != '+' &&
	       *text != ' ';
}

/* START or START-END (exclusive); only START: the row that applies there */
static bool parse_range(const char *text, __u64 *start, __u64 *end)
{
	char *rest;

	if (!parse_offset(text, &rest, start))
		return false;
	if (!*rest) {
		*end = *start + 1;
		return true;
	}
	return *rest == '-' && parse_offset(rest + 1, &rest, end) && !*rest &&
	       *start < *end;
}

/* ------------------------------------------------------------------------ */
/* Names								      */

/* Only names in the file itself are used. */
static int no_debuginfo(Dwfl_Module *module, void **data, const char *name,
			Dwarf_Addr base, const char *file, const char *link,
			GElf_Word crc, char **found)
{
	return -1;
}

static bool is_code(const GElf_Sym *sym, GElf_Word section)
{
	int type = GELF_ST_TYPE(sym->st_info);

	return section != SHN_UNDEF && section < SHN_LORESERVE &&
	       (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE);
}

/* From addresses to offsets. A symbol without size ends with its section, or earlier. */
static bool set_range(const struct show *show, struct symbol *symbol,
		      __u64 address, __u64 size, Elf *elf, GElf_Word section)
{
	const GElf_Phdr *segment = show->segments;
	GElf_Shdr header;
	__u64 left;

	while (segment < show->segments + show->nr_segments &&
	       (address < segment->p_vaddr ||
		address - segment->p_vaddr >= segment->p_filesz))
		segment++;
	if (segment == show->segments + show->nr_segments)
		return false;
	if (!size && gelf_getshdr(elf_getscn(elf, section), &header) &&
	    address - header.sh_addr < header.sh_size)
		size = header.sh_size - (address - header.sh_addr);
	left = segment->p_filesz - (address - segment->p_vaddr);
	symbol->start = address - segment->p_vaddr + segment->p_offset;
	symbol->end = symbol->start + (size < left ? size : left);
	return true;
}

/* Of several at one place, the most informative one is first. */
static int cmp_symbols(const void *p, const void *q)
{
	const struct symbol *a = p, *b = q;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->function != b->function)
		return b->function - a->function;
	if (a->sized != b->sized)
		return b->sized - a->sized;
	return strcmp(a->name, b->name);
}

/* No symbol begins within another one then. */
static void disentangle(struct show *show)
{
	struct symbol *last = NULL;
	size_t i, nr = 0;

	qsort(show->symbols, show->nr_symbols, sizeof(*show->symbols), cmp_symbols);
	for (i = 0; i < show->nr_symbols; i++) {
		struct symbol *symbol = &show->symbols[i];

		if (last && symbol->start < last->end) {
			if (last->sized || last->start == symbol->start)
				continue;
			last->end = symbol->start;
		}
		last = &show->symbols[nr++];
		*last = *symbol;
	}
	show->nr_symbols = nr;
}

/* From .symtab, .dynsym and .gnu_debugdata; a file need not have any */
static void read_symbols(struct show *show, const char *path, int fd)
{
	static const Dwfl_Callbacks callbacks = { .find_debuginfo = no_debuginfo };
	Dwfl_Module *module = NULL;
	GElf_Word section;
	GElf_Addr address;
	GElf_Addr bias;
	GElf_Sym sym;
	int i, nr;
	Elf *elf;

	show->dwfl = dwfl_begin(&callbacks);
	fd = dup(fd);
	if (show->dwfl && fd >= 0)
		module = dwfl_report_elf(show->dwfl, "", path, fd, 0, true);
	if (!module && fd >= 0)
		close(fd);
	nr = module && dwfl_module_getelf(module, &bias) ?
	     dwfl_module_getsymtab(module) : 0;
	show->symbols = nr > 0 ? calloc(nr, sizeof(*show->symbols)) : NULL;
	for (i = 0; show->symbols && i < nr; i++) {
		struct symbol *symbol = &show->symbols[show->nr_symbols];

		symbol->name = dwfl_module_getsym_info(module, i, &sym, &address,
						       &section, &elf, NULL);
		if (!symbol->name || !*symbol->name || !is_code(&sym, section))
			continue;
		symbol->sized = sym.st_size;
		symbol->function = GELF_ST_TYPE(sym.st_info) != STT_NOTYPE;
		if (set_range(show, symbol, address - bias, sym.st_size, elf, section))
			show->nr_symbols++;
	}
	if (show->symbols)
		disentangle(show);
}

/* The first one that ends beyond an offset */
static const struct symbol *symbol_from(const struct show *show, __u64 offset)
{
	size_t low = 0, high = show->nr_symbols;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (show->symbols[middle].end <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low < show->nr_symbols ? &show->symbols[low] : NULL;
}

/* ------------------------------------------------------------------------ */
/* Code without rules							      */

static void add_piece(struct show *show, __u64 start, __u64 end,
		      const struct symbol *symbol)
{
	struct piece *more;
	size_t max;

	if (show->nr_pieces == show->max_pieces) {
		max = show->max_pieces * 2 ?: 256;
		more = realloc(show->pieces, max * sizeof(*more));
		if (!more) {
			show->no_memory = true;
			return;
		}
		show->pieces = more;
		show->max_pieces = max;
	}
	show->pieces[show->nr_pieces++] = (struct piece) {
		.start	= start,
		.end	= end,
		.bytes	= end - start,
		.symbol	= symbol,
	};
}

static void add_gap(struct show *show, __u64 start, __u64 end)
{
	const struct symbol *symbol;
	__u64 stop;

	for (; start < end; start = stop) {
		symbol = symbol_from(show, start);
		stop = end;
		if (symbol && symbol->start > start) {
			if (symbol->start < end)
				stop = symbol->start;
			symbol = NULL;
		} else if (symbol && symbol->end < end) {
			stop = symbol->end;
		}
		add_piece(show, start, stop, symbol);
	}
}

/* The gaps of a segment before and between the rows with rules of a page */
static void see_page(struct show *show, const struct view *view, __u32 nr, __u64 page,
		     __u64 *at, __u64 end)
{
	__u32 i, next = table_first_row(view, nr + 1);

	for (i = table_first_row(view, nr); i < next; i++) {
		const struct unwind_table_row *row = &view->rows[i];
		__u8 kind = view->rules[row->rule].kind;
		__u64 from = page + row->offset;
		__u64 to = page + (i + 1 < next ? row[1].offset : UNWIND_TABLE_PAGE_SIZE);

		if (to <= *at || from >= end || kind == UNWIND_TABLE_NOT_COVERED ||
		    kind == UNWIND_TABLE_UNKNOWN)
			continue;
		if (from > *at)
			add_gap(show, *at, from);
		*at = to;
	}
}

static void find_pieces(struct show *show)
{
	struct view view;
	__u32 run, i, nr;
	size_t segment;

	table_set_view(&view, show->table);
	for (segment = 0; segment < show->nr_segments; segment++) {
		__u64 at = show->segments[segment].p_offset;
		__u64 end = at + show->segments[segment].p_filesz;

		for (run = 0, nr = 0; run < view.header->nr_runs; run++)
			for (i = 0; i < view.runs[run].nr_pages; i++, nr++)
				see_page(show, &view, nr,
					 (view.runs[run].page + i) << UNWIND_TABLE_PAGE_SHIFT,
					 &at, end);
		if (at < end)
			add_gap(show, at, end);
	}
}

/* Join the pieces of one function. */
static void merge_pieces(struct show *show)
{
	struct piece *last = NULL;
	size_t i, nr = 0;

	for (i = 0; i < show->nr_pieces; i++) {
		struct piece *piece = &show->pieces[i];

		if (last && piece->symbol && piece->symbol == last->symbol) {
			last->end = piece->end;
			last->bytes += piece->bytes;
			last->samples += piece->samples;
		} else {
			last = &show->pieces[nr++];
			*last = *piece;
		}
	}
	show->nr_pieces = nr;
}

/* ------------------------------------------------------------------------ */
/* Where stacks end							      */

static void see_end(struct show *show, const char *name, __u64 offset)
{
	size_t low = 0, high = show->nr_pieces;

	show->cut++;
	if (strcmp(name, show->name))
		return;
	show->cut_here++;
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (show->pieces[middle].end <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < show->nr_pieces && show->pieces[low].start <= offset)
		show->pieces[low].samples++;
	else
		show->cut_at_rules++;
}

/*
 * Lines of perf script: "cut", "complete", "unchecked" or "-", then the frames, innermost first, as
 * "<tab>ADDRESS (FILE+0xOFFSET)", then an empty line. Returns false if no stack says whether it is
 * cut. Names of files may be anything; with those that look like other lines, counts are wrong.
 */
static bool read_script(struct show *show, FILE *file)
{
	char *line = NULL, *name, *plus, last[PATH_MAX] = "", word[16] = "";
	unsigned long long address, offset = 0;
	bool known = false, caller = false;
	size_t size = 0;
	int at;

	while (getline(&line, &size, file) > 0) {
		at = 0;
		if (*line != '\t' && *line != '\n') {
			/* Or there is a newline in a name. */
			if (!*word)
				sscanf(line, "%15s", word);
			known |= !strcmp(word, "cut") || !strcmp(word, "complete") ||
				 !strcmp(word, "unchecked");
		} else if (*line == '\n') {
			if (!strcmp(word, "cut"))
				see_end(show, last, offset);
			*word = *last = '\0';
			caller = false;
		} else if (sscanf(line, " %llx (%n", &address, &at) == 1 && at &&
			   address <= INT64_MAX) {
			/* A return address may be the end of the function. */
			name = line + at;
			plus = strrchr(name, '+');
			snprintf(last, sizeof(last), "%.*s",
				 plus ? (int)(plus - name) : 0, name);
			offset = plus ? strtoull(plus + 1, NULL, 16) - caller : 0;
			caller = true;
		}
	}
	free(line);
	return known;
}

static FILE *open_script(const char *data, pid_t *pid)
{
	char *const args[] = {
		"perf", "script", "--no-inline", "-F", "ip,dso,dsoff,complete",
		"-i", (char *)data, NULL
	};
	int fds[2];

	if (pipe(fds))
		return NULL;
	*pid = fork();
	if (!*pid) {
		/* Its messages may have names from the data, unfiltered. */
		if (dup2(fds[1], STDOUT_FILENO) < 0 || !freopen("/dev/null", "w", stderr))
			_exit(1);
		close(fds[0]);
		close(fds[1]);
		/* Its name if it is installed beside another one */
		execvp("perf-unwind", args);
		execvp("perf", args);
		_exit(127);
	}
	close(fds[1]);
	if (*pid > 0)
		return fdopen(fds[0], "r");
	close(fds[0]);
	return NULL;
}

static bool read_samples(struct show *show, const char *path, const char *data)
{
	int status = 0;
	bool known;
	FILE *file;
	pid_t pid;

	if (!realpath(path, show->name)) {
		log_error("%s: %s", path, strerror(errno));
		return false;
	}
	file = open_script(data, &pid);
	if (!file) {
		log_error("show: cannot start perf: %s", strerror(errno));
		return false;
	}
	known = read_script(show, file);
	fclose(file);
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		log_error("show: --samples needs perf-unwind or perf, which is not in PATH");
	else if (status)
		log_error("%s: perf cannot read it; see \"perf script -F ip,complete -i FILE\"",
			  data);
	else if (!known)
		log_error("%s: %s", data,
			  "does not tell which user stacks are cut; was it recorded with --call-graph defer, on a kernel with unwind tables?");
	return !status && known;
}

/* ------------------------------------------------------------------------ */

static int cmp_pieces(const void *p, const void *q)
{
	const struct piece *a = p, *b = q;

	if (a->samples != b->samples)
		return a->samples > b->samples ? -1 : 1;
	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return a->start < b->start ? -1 : a->start > b->start;
}

static void print_function(const struct piece *piece, __u64 weight, __u64 all)
{
	char range[64], name[256];

	snprintf(range, sizeof(range), "0x%llx-0x%llx", piece->start, piece->end);
	snprintf(name, sizeof(name), "%s", piece->symbol ? piece->symbol->name : "");
	log_printable(name);
	printf("%10llu %6.2f %%  %-*s%s\n", weight, table_percent(weight, all),
	       *name ? 24 : 0, range, name);
}

/* Functions are aligned to this, and the padding has no name. */
static bool is_padding(const struct piece *piece)
{
	return !piece->symbol && piece->bytes < MAX_ALIGNMENT;
}

static void print_rest(__u64 weight, __u64 all, size_t nr, const char *what)
{
	if (nr)
		printf("%10llu %6.2f %%  in %zu %s\n", weight, table_percent(weight, all), nr,
		       what);
}

static void print_functions(struct show *show, bool samples)
{
	__u64 weight, all = 0, rest = 0, padding = 0;
	size_t i, nr = 0, nr_padding = 0;

	merge_pieces(show);
	qsort(show->pieces, show->nr_pieces, sizeof(*show->pieces), cmp_pieces);
	for (i = 0; i < show->nr_pieces; i++)
		all += samples ? show->pieces[i].samples : show->pieces[i].bytes;
	if (samples)
		printf("%llu user stacks are cut, %llu in this file (%llu where it has rules)\n",
		       show->cut, show->cut_here, show->cut_at_rules);
	if (all)
		printf("%10s %8s  %-24sFUNCTION\n", samples ? "STACKS" : "BYTES", "SHARE",
		       "WITHOUT RULES");
	for (i = 0; i < show->nr_pieces; i++) {
		const struct piece *piece = &show->pieces[i];

		weight = samples ? piece->samples : piece->bytes;
		if (!weight)
			break;
		if (!samples && is_padding(piece)) {
			padding += weight;
			nr_padding++;
		} else if (nr++ < MAX_FUNCTIONS) {
			print_function(piece, weight, all);
		} else {
			rest += weight;
		}
	}
	print_rest(rest, all, nr > MAX_FUNCTIONS ? nr - MAX_FUNCTIONS : 0, "others");
	print_rest(padding, all, nr_padding,
		   "places without name, less than 64 bytes each: most are padding");
}

static int show_functions(const struct unwind_table *table, const char *path, int fd,
			  const char *samples)
{
	struct show show = { .table = table };
	bool ok = false;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	show.segments = table_code_segments(elf, &show.nr_segments);
	if (!show.segments) {
		log_error("%s: elfutils cannot read it: %s", path, elf_errmsg(-1));
	} else {
		read_symbols(&show, path, fd);
		find_pieces(&show);
		if (show.no_memory)
			log_error("show: no memory for the list of functions");
		ok = !show.no_memory &&
		     (!samples || read_samples(&show, path, samples));
	}
	if (ok) {
		table_print_summary(table);
		print_functions(&show, samples);
	}
	free(show.pieces);
	free(show.symbols);
	dwfl_end(show.dwfl);
	free(show.segments);
	elf_end(elf);
	return ok ? EXIT_OK : EXIT_FAILED;
}

static int show_rows(const struct unwind_table *table, __u64 start, __u64 end)
{
	int error = unwind_table_print(table, start, end, stdout);

	if (error) {
		log_error("show: cannot print: %s", strerror(-error));
		return EXIT_FAILED;
	}
	return EXIT_OK;
}

int cmd_show(int argc, char **argv)
{
	static const struct option options[] = {
		{ "rows",	no_argument,		NULL, 'r' },
		{ "samples",	required_argument,	NULL, 's' },
		{ }
	};
	const char *path, *samples = NULL;
	__u64 start = 0, end = UINT64_MAX;
	struct unwind_table *table;
	bool rows = false;
	int c, fd, ret;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		switch (c) {
		case 'r':
			rows = true;
			break;
		case 's':
			samples = optarg;
			break;
		default:
			log_error("show: %s %s; see unwind-tables --help",
				  c == ':' ? "no value for" : "unknown option",
				  argv[optind - 1]);
			return EXIT_USAGE;
		}
	}
	argc -= optind;
	argv += optind;
	if (argc < 1 || argc > 2) {
		log_error("show: needs a file, and perhaps a range; see unwind-tables --help");
		return EXIT_USAGE;
	}
	if (argc == 2 && !parse_range(argv[1], &start, &end)) {
		log_error("show: %s: no range of offsets such as 1000 or 1000-1fff",
			  argv[1]);
		return EXIT_USAGE;
	}
	if (samples && (rows || argc == 2)) {
		log_error("show: --samples lists functions, not rows; see unwind-tables --help");
		return EXIT_USAGE;
	}

	path = argv[0];
	fd = table_read(path, &table);
	if (fd < 0)
		return EXIT_FAILED;
	if (rows || argc == 2)
		ret = show_rows(table, start, end);
	else
		ret = show_functions(table, path, fd, samples);
	if (ret == EXIT_OK && rows && argc == 1)
		table_print_summary(table);
	unwind_table_free(table);
	close(fd);
	if (fflush(stdout) || ferror(stdout)) {
		log_error("show: cannot print: %s", strerror(errno));
		return EXIT_FAILED;
	}
	return ret;
}
