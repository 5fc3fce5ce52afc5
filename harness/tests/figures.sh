# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016 # backticks of Markdown
#
# figures, with made-up pages and runs. Sourced by run, which sets these:
: "${tmp:?}" "${harness:?}"

export UNWIND_PAGES=$tmp/pages
# shellcheck disable=SC2120 # also called without arguments
figures() { UNWIND_BUILD=$tmp/figures-build "$harness/figures" "$@"; }
before=$tmp/pages-before
fresh() { # [SED [PAGE]] - pages, with a change
	rm -rf "$tmp/figures-build" "$UNWIND_PAGES" "$before"
	mkdir -p "$UNWIND_PAGES/docs"
	cat > "$UNWIND_PAGES/README.md" <<- 'END'
		# Title

		<!-- figures:off -->
		| | 6.12 | with the series |
		|---|---|---|
		| system call, static program | 262 | 264 |
		| another | | 3 |

		*`make bench`, tree before commit 1234567, 2026-01-02; `make test`, commit 89abcde, 2026-01-03*
		<!-- /figures -->

		last
	END
	cat > "$UNWIND_PAGES/docs/more.md" <<- 'END'
		<!-- figures:said -->
		    printed
		*`make run`, commit 1234567, 2026-01-02*
		<!-- /figures -->
		<!-- figures:off -->
		| | with the series |
		|---|---|
		| system call, static program | 264 |
		*`make bench`, tree before commit 1234567, 2026-01-02*
		<!-- /figures -->
	END
	sed -i "${1:-}" "$UNWIND_PAGES/${2:-README.md}"
	cp -r "$UNWIND_PAGES" "$before"
}
# What bench printed
printf '%-36s %8d\n' 'base: no tracing' 262 'series: no tracing' 266 |
	cat <(echo 'static program') - > "$tmp/bench"
bench() { figures take 'make bench' "$tmp/bench" 7654321 2026-02-03; }
in_readme() { grep -qxF -- "$1" "$UNWIND_PAGES/README.md"; }
unchanged() { diff -r "$UNWIND_PAGES" "$before"; }

fresh
pass figures-accepts-the-pages figures -c
pass figures-without-a-run figures
pass figures-without-a-run-leaves-the-pages unchanged
pass figures-takes-what-bench-printed bench
pass figures-writes-the-pages figures
pass figures-of-a-run-replace-those-of-the-command in_readme '| system call, static program | 262 | 266 |'
pass figures-of-another-command-stay in_readme '| another | | 3 |'
pass figures-says-where-they-are-from \
	in_readme '*`make bench`, commit 7654321, 2026-02-03; `make test`, commit 89abcde, 2026-01-03*'
pass figures-of-a-run-are-in-all-pages grep -qx '| system call, static program | 266 |' "$UNWIND_PAGES/docs/more.md"
pass figures-writes-nothing-else test "$(diff -r "$before" "$UNWIND_PAGES" | grep -c '^>')" = 4
pass figures-agrees-with-what-it-wrote figures -c

# Runs that lack a figure of a page
lacks() { # NAME FIGURE SED
	fresh "$3"
	bench > "$tmp/out"
	figures > "$tmp/said" 2>&1 || true
	pass "$1" grep -q "off: not taken: .*: make bench has not printed $2" "$tmp/said"
	pass "$1-and-leave-the-page" unchanged
}
lacks figures-stay-if-a-run-has-not-printed-all-of-a-row 'system call, static program, 7.3' \
	's/6.12/7.3/'
lacks figures-stay-if-a-run-has-not-printed-all-rows 'another, with the series' 's/; `make test`[^*]*//'

# Pages that must be refused
wrong_page() { # NAME TEXT SED [PAGE]
	fresh "$3" "${4:-}"
	bench > "$tmp/out"
	refuse "$1" "$2" figures
	pass "$1-and-leaves-the-page" unchanged
	refuse "$1-by-check" "$2" figures -c
}
wrong_page figures-refuses-two-commits-of-one-command 'make bench is commit 7654321, 2026-01-02, but tree before' \
	's/tree before commit 1234567/commit 7654321/' docs/more.md
wrong_page figures-refuses-a-figure-that-another-page-has-otherwise \
	'system call, static program, with the series is 265, but 264 before' 's/264/265/' docs/more.md
wrong_page figures-refuses-a-figure-that-is-there-twice 'another is there twice' 's/^| another.*/&\n&/'
wrong_page figures-refuses-a-row-with-other-columns 'another has other columns' 's/^| another.*/& 4 |/'
wrong_page figures-refuses-a-figure-without-a-date 'no command, commit or date' 's/, 2026-01-03//'
wrong_page figures-refuses-a-figure-without-a-commit 'no command, commit or date' 's/89abcde/unknown/'
wrong_page figures-refuses-a-block-without-a-command 'no command, commit or date' '/^\*/d' docs/more.md
wrong_page figures-refuses-a-block-without-an-end 'block off has no end' '/^<!-- .figures/d'
wrong_page figures-refuses-an-end-without-a-block 'an end without a block' '/^<!-- figures/d'
unset UNWIND_PAGES
