# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# figures, with made-up pages and tables. Sourced by run, which sets these:
: "${tmp:?}" "${harness:?}"

pages=$tmp/pages
mkdir -p "$pages/docs/figures"
export UNWIND_PAGES=$pages UNWIND_FIGURES=$pages/docs/figures

# table NAME ROW... - a table of rows "row|column|value|command|commit|date"
table() {
	local name=$1
	shift
	{
		printf 'row\tcolumn\tvalue\tcommand\tcommit\tdate\n'
		printf '%s\n' "$@" | tr '|' '\t'
	} > "$pages/docs/figures/$name.tsv"
}
# shellcheck disable=SC2120 # also called without arguments
figures() { UNWIND_BUILD=$tmp/figures-build UNWIND_LOGS=$tmp/figures-build "$harness/figures" "$@"; }
fresh() {
	rm -rf "$tmp/figures-build" "$pages/docs/figures"/*
	table cost 'a call|base|262|make bench|1234567|2026-01-02' \
		'a call|series|264|make bench|1234567|2026-01-02' \
		'callers|series|7|make test|89abcde|2026-01-03'
	printf '# Title\n\n<!-- figures:cost -->\nold\n<!-- /figures -->\n\nlast' > "$pages/README.md"
	printf '<!-- figures:cost callers -->\n<!-- /figures -->\n' > "$pages/docs/more.md"
}
is_page() { diff "$pages/$1" -; }

fresh
refuse figures-tells-of-a-page-without-them 'README.md has other figures' figures -c
pass figures-writes-the-pages figures
pass figures-makes-a-table-and-says-where-it-is-from is_page README.md << 'END'
# Title

<!-- figures:cost -->
| | base | series |
|---|---|---|
| a call | 262 | 264 |
| callers | | 7 |

*`make bench`, commit 1234567, 2026-01-02; `make test`, commit 89abcde, 2026-01-03*
<!-- /figures -->

last
END
pass figures-takes-the-rows-that-are-named is_page docs/more.md << 'END'
<!-- figures:cost callers -->
| | series |
|---|---|
| callers | 7 |

*`make test`, commit 89abcde, 2026-01-03*
<!-- /figures -->
END
pass figures-agrees-with-what-it-wrote figures -c
sed -i 's/264/265/' "$pages/README.md"
refuse figures-tells-of-a-figure-that-was-changed-by-hand '< | a call | 262 | 265 |' figures -c

printf 'make run\t1234567\t2026-01-02\nprinted\n\n  more\n' > "$pages/docs/figures/said.txt"
refuse figures-tells-of-a-table-that-no-page-shows 'docs/figures/said.txt is in no page' figures
printf '<!-- figures:said -->\n<!-- /figures -->\n' > "$pages/docs/more.md"
pass figures-writes-what-a-command-printed figures
pass figures-indents-what-a-command-printed is_page docs/more.md << 'END'
<!-- figures:said -->
    printed

      more

*`make run`, commit 1234567, 2026-01-02*
<!-- /figures -->
END

fresh
table cost 'callers|series|7|make test|before 89abcde|2026-01-03'
# shellcheck disable=SC2119
figures > "$tmp/out" 2>&1 || true
# shellcheck disable=SC2016 # backticks of Markdown
pass figures-says-of-a-tree-without-a-commit-before-which-it-was \
	grep -qxF '*`make test`, tree before commit 89abcde, 2026-01-03*' "$pages/README.md"

# Pages and tables that must be refused
wrong_table() { # NAME TEXT ROW...
	fresh
	table cost "${@:3}"
	cp "$pages/README.md" "$tmp/page"
	refuse "$1" "$2" figures
	pass "$1-and-leaves-the-page" cmp "$pages/README.md" "$tmp/page"
}
wrong_table figures-refuses-two-commits-of-one-command 'make bench of two commits' \
	'callers|x|1|make bench|1234567|2026-01-02' 'b|x|1|make bench|1234568|2026-01-02'
wrong_table figures-refuses-a-figure-that-is-there-twice 'callers, x is there twice' \
	'callers|x|1|make bench|1234567|2026-01-02' 'callers|x|2|make bench|1234567|2026-01-02'
wrong_table figures-refuses-a-figure-without-a-date 'no command, commit or date' \
	'callers|x|1|make bench|1234567|'
wrong_table figures-refuses-a-figure-without-a-commit 'no command, commit or date' \
	'callers|x|1|make bench|unknown|2026-01-02'
fresh
printf '<!-- figures:cost -->\n' > "$pages/docs/more.md"
refuse figures-refuses-a-block-without-an-end 'block cost has no end' figures
fresh
printf '<!-- figures:nothing -->\n<!-- /figures -->\n' > "$pages/docs/more.md"
refuse figures-refuses-a-block-without-a-table 'nothing' figures

# Figures of a run
bench=$tmp/bench-output
bench() { # VALUE
	printf '%-36s %8d\n' 'base: no tracing' 262 'series: no tracing' "$1" |
		cat <(echo 'static program') - > "$bench"
}
fresh
table off 'system call, static program|6.12|262|make bench|1234567|2026-01-02' \
	'system call, static program|with the series|264|make bench|1234567|2026-01-02' \
	'another|6.12|3|make test|1234567|2026-01-02'
printf '<!-- figures:off -->\n<!-- /figures -->\n<!-- figures:cost callers -->\n<!-- /figures -->\n' > "$pages/README.md"
bench 266
pass figures-takes-what-bench-printed figures take 'make bench' "$bench" 7654321 2026-02-03
row() { grep -qxF "$1"$'\t'"$2" "$pages/docs/figures/off.tsv"; }
# shellcheck disable=SC2119
figures > "$tmp/out" 2>&1 || true
pass figures-of-a-run-replace-those-of-the-command \
	row $'system call, static program\twith the series' $'266\tmake bench\t7654321\t2026-02-03'
pass figures-of-another-command-stay row $'another\t6.12' $'3\tmake test\t1234567\t2026-01-02'
pass figures-of-a-run-are-in-the-page grep -qF '| system call, static program | 262 | 266 |' "$pages/README.md"
table off 'not printed|6.12|262|make bench|1234567|2026-01-02' \
	'system call, static program|6.12|1|make bench|1234567|2026-01-02'
# shellcheck disable=SC2119
figures > "$tmp/out" 2>&1 || true
pass figures-stay-if-a-run-has-not-printed-all-of-them \
	row $'system call, static program\t6.12' $'1\tmake bench\t1234567\t2026-01-02'
unset UNWIND_PAGES UNWIND_FIGURES
