# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# check, tree, refresh and export on made-up bases of four files. Sourced by run,
# which sets these:
: "${tmp:?}" "${harness:?}"

repo=$tmp/repo
export UNWIND_CACHE=$tmp/cache UNWIND_BUILD=$tmp/build UNWIND_LOGS=$tmp/build/logs
export UNWIND_TREE=$tmp/build/tree
unset UNWIND_BASE CI

# A base package VERSION whose file "one" starts with EXTRA lines, and goes up to LAST (40)
base_package() {
	local dir=$tmp/pkg name=linux-source-${BASE:-6.12} i
	rm -rf "$dir"
	mkdir -p "$dir/src/$name/kernel" "$dir/deb/DEBIAN" "$dir/deb/usr/src" \
		"$UNWIND_CACHE/base"
	{
		for ((i = 0; i < $2; i++)); do echo "extra $i"; done
		seq 1 "${3:-40}"
	} > "$dir/src/$name/kernel/one"
	seq 1 10 > "$dir/src/$name/kernel/two"
	echo same > "$dir/src/$name/kernel/same"
	echo '*.o' > "$dir/src/$name/.gitignore"
	tar -C "$dir/src" -cJf "$dir/deb/usr/src/$name.tar.xz" "$name"
	printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n' \
		"$name" "$1" > "$dir/deb/DEBIAN/control"
	dpkg-deb -Znone --build "$dir/deb" "$UNWIND_CACHE/base/${name}_$1_all.deb" > /dev/null
	(cd "$UNWIND_CACHE/base" && sha256sum "${name}_$1_all.deb" > "${name}_$1_all.deb.sha256")
}

no_tree() { rm -rf "$UNWIND_TREE" "$UNWIND_TREE.state"; }
tree_git() { git -C "$UNWIND_TREE" -c user.name='A Ünther' -c user.email=a@example.org "$@"; }
snapshot() { (cd "$repo" && find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum); }

base_package 6.12.900-1 0
base_package 6.12.901-1 3
mkdir -p "$repo/patches" "$repo/kernel"
cp -r "$harness" "$repo/harness"
git init -q "$repo"
echo 6.12.900 > "$repo/patches/base"
: > "$repo/patches/series"
export UNWIND_BASE=6.12.900-1

pass tree-of-an-empty-series "$repo/harness/tree"

# Three commits: an edit, an edit with a new executable file, only a new file
write_history() {
	sed -i 's/^20$/twenty/' "$UNWIND_TREE/kernel/one"
	tree_git commit -qam $'kernel/one: Spell out twenty\n\nNumbers up to twelve, and this one.'
	sed -i 's/^5$/five/' "$UNWIND_TREE/kernel/two"
	mkdir -p "$UNWIND_TREE/tools"
	echo run > "$UNWIND_TREE/tools/run.o"
	chmod +x "$UNWIND_TREE/tools/run.o"
	tree_git add -Af
	tree_git commit -qm $'kernel/two: Spell out five; a subject that is long enough to be folded by mail software\n\nBecause of the naïve reader.'
	echo new > "$UNWIND_TREE/kernel/three"
	tree_git add -A
	tree_git commit -qm $'kernel: Add three\n\nOnly a new file.'
}
pass commits-in-the-tree write_history
hash=$(tree_git rev-parse 'HEAD^{tree}')
pass refresh-writes-patches "$repo/harness/refresh"
pass check-accepts-what-refresh-wrote "$repo/harness/check" -s
before=$(snapshot)
pass second-refresh-changes-nothing "$repo/harness/refresh"
pass second-refresh-is-byte-identical test "$before" = "$(snapshot)"
pass series-names-new-files grep -qx '  + tools/run.o' "$repo/patches/series"
pass no-index-lines bash -c "! grep -rq '^index ' '$repo/patches'"
no_tree
pass tree-from-nothing "$repo/harness/tree"
pass same-tree-as-before test "$hash" = "$(tree_git rev-parse 'HEAD^{tree}')"
pass one-commit-per-step test "$(tree_git rev-list --count base..HEAD)" = 3
pass subject-survives test "$(tree_git log -1 --format=%s%b HEAD^ | wc -c)" -gt 100
pass author-survives test "$(tree_git log -1 --format=%an)" = 'A Ünther'
pass refresh-after-tree "$repo/harness/refresh"
pass round-trip-is-byte-identical test "$before" = "$(snapshot)"

# The mails: a cover letter, the steps, and nothing of ours changed
printf '# Numbers in words\n\nThe text.\n' > "$repo/patches/cover.md"
before=$(snapshot)
pass export-writes-the-series "$repo/harness/export" "$tmp/mail" 2 'A B <a@b.example>'
pass export-again-over-it "$repo/harness/export" "$tmp/mail" 2 'A B <a@b.example>'
pass export-has-cover-and-steps test "$(find "$tmp/mail" -name 'v2-*.patch' | wc -l)" = 4
pass cover-has-the-title grep -q '^Subject: .*Numbers in words' "$tmp/mail/v2-0000-cover-letter.patch"
pass cover-has-the-text grep -qx 'The text.' "$tmp/mail/v2-0000-cover-letter.patch"
pass each-step-is-signed-off test "$(grep -lx 'Signed-off-by: A B <a@b.example>' "$tmp/mail"/v2-000[1-9]* | wc -l)" = 3
pass export-changes-nothing-here test "$before" = "$(snapshot)"
pass export-leaves-the-tree-alone test "$hash" = "$(tree_git rev-parse 'HEAD^{tree}')"
refuse export-with-half-a-sign-off-fails 'SIGNOFF must read' "$repo/harness/export" "$tmp/mail" 1 'A B'
rm "$repo/patches/cover.md"

# Neither side is lost
cp -r "$repo" "$tmp/saved"
restore() { rm -rf "$repo" && cp -r "$tmp/saved" "$repo" && no_tree && "$repo/harness/tree" > /dev/null; }
edit_both() {
	echo ours > "$repo/kernel/three"
	echo theirs > "$UNWIND_TREE/kernel/three"
	tree_git commit -qa --amend --no-edit
}
edit_both
refuse edits-on-both-sides-fails 'nothing written: kernel/three' "$repo/harness/refresh"
pass edits-on-both-sides-keep-ours grep -qx ours "$repo/kernel/three"
refuse tree-keeps-unwritten-edits-fails 'edits not written back' "$repo/harness/tree"
restore
echo ours > "$repo/kernel/three"
refuse only-the-repository-changed-fails 'kernel/three' "$repo/harness/refresh"
pass only-the-repository-changed-keeps grep -qx ours "$repo/kernel/three"
pass tree-takes-the-new-file "$repo/harness/tree"
pass tree-has-the-new-file grep -qx ours "$UNWIND_TREE/kernel/three"
restore
echo dirt >> "$UNWIND_TREE/kernel/one"
refuse uncommitted-changes-fails 'uncommitted' "$repo/harness/refresh"
tree_git commit -qam 'fixup! kernel/one: Spell out twenty'
refuse fixup-not-squashed-fails 'autosquash' "$repo/harness/refresh"
restore
echo more >> "$UNWIND_TREE/tools/run.o"
tree_git commit -qam $'tools: Change what is new\n\nA second state.'
hash=$(tree_git rev-parse "HEAD^{tree}")
forms() { for c in $(tree_git rev-list --reverse base..HEAD); do tree_git rev-parse -q --verify "$c:tools/run.o" || echo none; done; }
forms > "$tmp/forms"
pass new-file-in-two-forms-is-written "$repo/harness/refresh"
pass new-file-stands-in-its-last-form grep -qx more "$repo/tools/run.o"
pass later-form-is-a-hunk grep -qx '+more' "$repo/patches/0004-tools-change-what-is-new.patch"
pass check-accepts-hunks-for-new-files "$repo/harness/check" -s
no_tree
pass tree-takes-later-hunks-back "$repo/harness/tree"
pass tree-with-two-forms-is-as-before test "$hash" = "$(tree_git rev-parse 'HEAD^{tree}')"
pass each-step-has-its-form diff <(forms) "$tmp/forms"
before=$(snapshot)
pass refresh-with-two-forms-changes-nothing "$repo/harness/refresh"
pass refresh-with-two-forms-is-byte-identical test "$before" = "$(snapshot)"
sed -i 's/^more$/less/' "$repo/tools/run.o"
refuse hunk-that-cannot-be-taken-back-fails '0004-tools-change-what-is-new.patch cannot be reverted' "$repo/harness/tree"
sed -i 's/^less$/more/; 1i first' "$repo/tools/run.o"
refuse hunk-at-an-offset-fails 'cannot be reverted' "$repo/harness/tree"
restore
tree_git rm -q kernel/three
tree_git commit -qm $'kernel: Remove three\n\nIt has come and goes.'
refuse removal-of-a-new-file-fails 'missing at the end' "$repo/harness/refresh"
restore
tree_git mv kernel/three kernel/four
tree_git commit -qm $'kernel: Rename three\n\nIt has come and goes.'
refuse rename-of-a-new-file-fails 'missing at the end' "$repo/harness/refresh"
restore
chmod +x "$UNWIND_TREE/kernel/three"
tree_git commit -qam $'kernel: Run three\n\nIts mode changes.'
refuse mode-of-a-new-file-that-changes-fails 'mode of kernel/three changes' "$repo/harness/refresh"
restore

# Moving the base: an offset is reported, fuzz is refused
export UNWIND_BASE=6.12.901-1
refuse offsets-at-another-base-ok '1 hunks at an offset' \
	bash -c "'$repo/harness/tree'; exit 1"
restore
echo 6.12.901 > "$repo/patches/base"
no_tree
refuse offset-at-the-named-base-fails 'does not apply exactly' "$repo/harness/tree"
refuse waits-for-the-step-to-be-resolved 'waits to be resolved' "$repo/harness/tree"
sed -i 's/^20$/twenty/' "$UNWIND_TREE/kernel/one"
pass resolved-step-goes-on "$repo/harness/tree" -c
pass refresh-after-a-base-move "$repo/harness/refresh"
no_tree
pass tree-after-a-base-move "$repo/harness/tree"
export UNWIND_BASE=6.12.900-1
restore
sed -i 's/^ 17$/ seventeen/' "$repo/patches/0001-"*
no_tree
refuse wrong-context-fails 'kernel/one' "$repo/harness/tree"
restore

# Series that check must refuse
other=()
broken() { # NAME TEXT COMMAND
	bash -euc "cd '$repo'; $3"
	refuse "$1" "$2" "${other[@]}" "$repo/harness/check" -s
	rm -rf "$repo"
	cp -r "$tmp/saved" "$repo"
}
broken patch-not-in-series-fails 'not in patches/series' 'cp patches/0001-* patches/0004-x.patch'
broken patch-missing-fails 'is missing' 'rm patches/0002-*'
broken prefix-out-of-order-fails 'not its place' 'sed -i "s/^0003/0007/" patches/series; mv patches/0003-* patches/0007-kernel-add-three.patch'
broken file-in-no-step-fails 'is in no step' 'echo x > kernel/four'
broken file-in-two-steps-fails 'more than once' 'echo "  + tools/run.o" >> patches/series'
broken file-missing-fails 'does not exist' 'rm kernel/three'
broken patch-creates-file-fails 'creates a file' 'sed -i "s/^--- a.kernel.one/new file mode 100644\n&/" patches/0001-*'
broken patch-of-a-file-that-enters-later-fails 'enters with this step or a later one' 'sed -i "s#kernel/one#kernel/three#" patches/0001-*'
broken patch-that-removes-a-new-file-fails 'removes kernel/three' 'printf "diff --git a/kernel/three b/kernel/three\ndeleted file mode 100644\n--- a/kernel/three\n+++ /dev/null\n@@ -1 +0,0 @@\n-new\n" >> patches/0003-*'
broken index-line-fails 'make refresh' 'sed -i "s/^--- a.kernel.one/index 1234567..89abcde 100644\n&/" patches/0001-*'
broken sign-off-fails 'added at export' 'sed -i "0,/^---/s//Signed-off-by: A <a@b.c>\n---/" patches/0001-*'
broken no-message-fails 'no message' 'sed -i "/^Numbers/d" patches/0001-*'
broken long-line-in-message-fails 'longer than 75' 'sed -i "/^Numbers/s/.*/&&&&&&&&/" patches/0001-*'
broken stray-series-line-fails 'neither' 'echo "  kernel/three" >> patches/series'
broken empty-step-fails 'neither hunks nor new files' 'sed -i "/kernel.three/d" patches/series; rm kernel/three'
broken static-without-prefix-fails 'code.c: static learn without' 'mkdir kernel/unwind; echo "static int learn(void) { }" > kernel/unwind/code.c'
broken variable-without-prefix-fails 'user.c: static kick without' 'mkdir kernel/unwind; echo "static DEFINE_PER_CPU(struct irq_work, kick);" > kernel/unwind/user.c'
broken x86-static-without-prefix-fails 'unwind_user.c: static at_ret without' 'mkdir -p arch/x86/kernel; echo "static bool at_ret(const u8 *code) { }" > arch/x86/kernel/unwind_user.c'
broken name-out-of-use-fails 'code.h: the name fixed is' 'mkdir kernel/unwind; echo "bool fixed;" > kernel/unwind/code.h'
# shellcheck disable=SC2016 # a page's own
broken name-that-is-no-function-fails 'docs/x.md: no function gone()' 'mkdir docs; echo "\`gone()\` does it" > docs/x.md'
# shellcheck disable=SC2016 # backticks of Markdown
broken function-that-is-gone-fails 'no function gone' 'mkdir docs; echo "| rule | \`gone\` | tests |" > docs/rules.md'
# shellcheck disable=SC2016
broken file-that-is-gone-fails 'no file gone.c' 'mkdir docs; echo "| rule | \`gone.c\` | tests |" > docs/rules.md'
# shellcheck disable=SC2016
broken test-that-is-gone-fails 'no test walk.that_is_gone' 'mkdir docs; echo "| rule | \`kernel/three\` | \`walk.that_is_gone\` |" > docs/rules.md'
# shellcheck disable=SC2016
broken litmus-test-that-is-gone-fails 'no litmus test gone+gone.litmus' 'mkdir docs; echo "| rule | \`kernel/three\` | \`gone+gone.litmus\` |" > docs/rules.md'

# The made-up series with a cover letter that names some of its patches
letter() { # TEXT
	printf '# Numbers\n\nReview these first.\n\n   2  kernel/two: %s\n      Text.\n   3  kernel: Add three. Only a\n      new file.\n\n  %s\n  3-3  the new file\n' \
		'Spell out five; a subject that is long enough to
      be folded by mail software. What follows' '1-2  words' > "$repo/patches/cover.md"
	sed -i "$1" "$repo/patches/cover.md"
}
letter ''
pass check-accepts-a-cover-letter-with-the-right-numbers "$repo/harness/check" -s
broken_letter() { # NAME TEXT SED
	letter "$3"
	refuse "$1" "$2" "$repo/harness/check" -s
}
broken_letter cover-with-a-number-that-is-off-fails 'patch 2 is not' 's/^   3  /   2  /'
broken_letter cover-with-a-number-beyond-the-end-fails "patch 9 is not 'kernel: Add three', but 'none'" 's/^   3  /   9  /'
broken_letter cover-with-another-title-fails "but 'kernel: Add three'" 's/Add three/Add four/'
broken_letter cover-with-a-title-that-ends-elsewhere-fails 'patch 2 is not' 's/mail software/mailers/'
broken_letter cover-without-the-last-patch-fails 'the parts end at patch 2 of 3' '/^  3-3/d'
broken_letter cover-with-a-gap-between-parts-fails '3-3 does not begin at patch 2' 's/^  1-2/  1-1/'
rm "$repo/patches/cover.md"

# The series for another base: edits of its own, and copies of the new files here
BASE=7.3 base_package 7.3.900-1 2
for file in series files cover.md; do
	mkdir -p "$repo/patches/mainline"
	echo "# $file" > "$repo/patches/mainline/$file"
done
echo 7.3.900 > "$repo/patches/mainline/base"
other=(env BASE=7.3 UNWIND_BASE=7.3.900-1 UNWIND_TREE="$tmp/other")
other_git() { git -C "$tmp/other" -c user.name='A Ünther' -c user.email=a@example.org "$@"; }
before=$(snapshot)
pass other-tree-of-an-empty-series "${other[@]}" "$repo/harness/tree"
sed -i 's/^30$/thirty/' "$tmp/other/kernel/one"
other_git commit -qam $'kernel/one: Spell out thirty\n\nOnly an edit.'
sed -i 's/^7$/seven/' "$tmp/other/kernel/two"
cp "$repo/kernel/three" "$tmp/other/kernel/three"
other_git add -A
other_git commit -qm $'kernel: Add three here, too\n\nAn edit and a copy.'
hash=$(other_git rev-parse 'HEAD^{tree}')
pass other-refresh-writes-patches "${other[@]}" "$repo/harness/refresh"
pass other-files-has-the-copy test "$(cat "$repo/patches/mainline/files")" = \
	$'# files\n0002-kernel-add-three-here-too.patch\n  + kernel/three'
pass other-series-has-the-order test "$(cat "$repo/patches/mainline/series")" = \
	$'# series\n0001-kernel-one-spell-out-thirty.patch\n0002-kernel-add-three-here-too.patch'
pass other-check-accepts-it "${other[@]}" "$repo/harness/check" -s
pass check-accepts-the-other-series "$repo/harness/check" -s
pass tree-does-not-mind-the-other-series "$repo/harness/tree"
rm -rf "$tmp/other" "$tmp/other.state"
pass other-tree-from-nothing "${other[@]}" "$repo/harness/tree"
pass other-tree-is-as-before test "$hash" = "$(other_git rev-parse 'HEAD^{tree}')"
pass other-export-writes-the-series "${other[@]}" "$repo/harness/export" "$tmp/mail7" 1 ''
pass other-cover-has-the-title grep -q '^Subject: .*cover.md' "$tmp/mail7/0000-cover-letter.patch"
pass other-steps-apply git -C "$tmp/other" apply --check -R "$tmp/mail7/0002-kernel-Add-three-here-too.patch"
refuse other-base-without-series-fails 'no series for BASE=7.4' env BASE=7.4 "$repo/harness/tree"
other_git rm -q kernel/three
other_git commit -q --amend --no-edit
pass other-refresh-without-the-copy "${other[@]}" "$repo/harness/refresh"
pass file-that-is-no-longer-copied-stays grep -qx new "$repo/kernel/three"
echo four > "$tmp/other/kernel/four"
other_git add -A
other_git commit -qm $'kernel: Add four\n\nNot a copy.'
refuse file-of-the-other-series-alone-fails 'no new file of patches/series' "${other[@]}" "$repo/harness/refresh"
rm -rf "$tmp/saved"
echo '0002-kernel-add-three-here-too.patch' >> "$repo/patches/mainline/files"
cp -r "$repo" "$tmp/saved"
broken other-files-that-are-not-here-fails 'is not in patches/series' 'echo "  + kernel/four" >> patches/mainline/files; echo x > kernel/four'
broken other-files-in-the-order-fails 'belong into patches/mainline/files' 'echo "  + kernel/three" >> patches/mainline/series'
broken other-files-of-no-step-fails 'names 0009-x.patch' 'echo 0009-x.patch >> patches/mainline/files'
broken other-patch-of-a-shared-file-fails 'the same for all bases' \
	'echo "  + kernel/three" >> patches/mainline/files; sed -i "s#kernel/one#kernel/three#" patches/mainline/0001-*'
echo '  + kernel/two' >> "$repo/patches/mainline/files"
sed -i 's/kernel.three/kernel\/two/' "$repo/patches/series"
mv "$repo/kernel/three" "$repo/kernel/two"
sed -i '/^diff --git .*two/,$d' "$repo/patches/mainline/0002-"*
rm -rf "$tmp/other" "$tmp/other.state"
refuse file-that-the-other-base-has-fails 'kernel/two is in linux-source-7.3 itself' "${other[@]}" "$repo/harness/tree"
rm -rf "$repo"
cp -r "$tmp/saved" "$repo"

# The package in the cache is not the one that was downloaded
echo x >> "$UNWIND_CACHE/base/linux-source-6.12_6.12.900-1_all.deb"
refuse damaged-package-fails 'damaged' "$repo/harness/fetch"
