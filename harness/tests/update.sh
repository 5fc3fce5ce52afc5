# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# update with a made-up apt, build and repository, and the base and series of series.sh.
# Sourced by run, which sets these:
: "${tmp:?}" "${harness:?}" "${repo:?}"

rm -rf "$repo" "$UNWIND_TREE" "$UNWIND_TREE.state"
cp -r "$tmp/saved" "$repo"
base_package 6.12.900-1 0
base_package 6.12.900-2 3
base_package 6.12.902-1 0
base_package 6.12.903-1 0
mkdir "$tmp/update"
export UPDATE=$tmp/update REPO=$tmp/update/repo
mkdir -p "$REPO" "$UPDATE/bin"

fake "$UPDATE/bin/apt-get" << 'END'
case $1 in
indextargets) cat "$UPDATE/archives" ;;
update) [[ ! -e $UPDATE/offline || $* != *Error-Mode=any* ]] || { echo 'no answer'; exit 1; } ;;
esac
END
# shellcheck disable=SC2016 # expands in the made-up program
fake "$UPDATE/bin/apt-cache" <<< 'while read -r v; do echo "x | $v | y"; done < "$UPDATE/offered"'
# shellcheck disable=SC2016
fake "$UPDATE/bin/sendmail" <<< 'cat > "$UPDATE/mail"'
# Each says that it was called, and fails if it is told to.
for name in deb deb-test repo; do
	fake "$repo/harness/$name" <<- 'END'
		name=${0##*/}
		echo "$name $*" >> "$UPDATE/called"
		mkdir -p "$UNWIND_DEB" "$UNWIND_BUILD/deb-cloud"
		[[ $name = deb ]] || cmp -s "$UPDATE/version" "$UNWIND_DEB/x.deb" || { echo 'no such packages'; exit 1; }
		[[ ! -e $UPDATE/kills ]] || { exec 7>&-; kill -KILL $PPID; exit 1; }
		[[ ! -e $UPDATE/fails-$name ]] || { echo "$name: error: it is broken, log: $UPDATE/log-of-it"; exit 1; }
		case $name in
		deb) cp "$UPDATE/version" "$UNWIND_DEB/x.deb" ;;
		repo) printf 'Package: linux-image-unwind-cloud-amd64\nVersion: %s\n\n' "$(cat "$UPDATE/version")" >> "$REPO/Packages" ;;
		esac
	END
done
echo 'the compiler has said why' > "$UPDATE/log-of-it"
printf '%s\n' 'Packages Debian bookworm' 'Packages Debian bookworm-security' > "$UPDATE/archives"

commit() { git -C "$repo" add -A && git -C "$repo" -c user.name=a -c user.email=a@example.org commit -qm x --allow-empty; }
update() { # VERSION OF THE PACKAGES TO EXPECT, OFFERED...
	echo "$1" > "$UPDATE/version"
	printf '%s\n' "${@:2}" > "$UPDATE/offered"
	: > "$UPDATE/called"
	rm -f "$UPDATE/mail"
	PATH=$UPDATE/bin:$PATH env -u UNWIND_BASE MAILTO="$mailto" "$repo/harness/update" cloud
}
mailto=a@example.org
calls() { xargs < "$UPDATE/called"; }
published() { sed -n 's/^Version: \(.*\)+.*/\1/p' "$REPO/Packages" | xargs; }
# intact BASE VERSION - tree and packages are those of this base
intact() {
	[[ $(cat "$UNWIND_TREE.state/base") = "$1" && $(tree_git rev-parse HEAD) = "$(cat "$UNWIND_TREE.state/head")" &&
		-z $(tree_git status --porcelain) && $(cat "$UNWIND_BUILD/deb/x.deb") = "$2+"* && ! -e $UNWIND_TREE.before ]]
}
commit
when=$(cd "$repo" && UNWIND_BUILD=$tmp/build bash -euc '. harness/lib.sh; package_time')

pass update-publishes-what-apt-offers update "6.12.900.1+unwind$when" 6.12.900-1
pass update-builds-boots-and-publishes test "$(calls)" = 'deb cloud deb-test boot repo'
pass update-leaves-tree-and-packages-of-that intact 6.12.900-1 6.12.900.1
pass update-without-news update x 6.12.900-1
pass update-without-news-says-so-in-a-line test "$(wc -l < "$tmp/out") $(grep -c 'nothing is newer' "$tmp/out")" = '1 1'
pass update-without-news-builds-nothing test -z "$(calls)"
# As if it had been built of the source before
touch "$tmp/object"
pass update-to-a-revision-of-the-same-version update "6.12.900.2+unwind$when" 6.12.900-2 6.12.900-1
pass update-has-the-source-of-that-revision intact 6.12.900-2 6.12.900.2
pass update-has-all-of-it-compiled-again test "$UNWIND_TREE/kernel/same" -nt "$tmp/object"
pass update-where-apt-offers-an-older-one update x 6.12.900-1
pass update-takes-no-older-one test -z "$(calls)"

# Errors that stop it
stopped() { # NAME TEXT CALLS COMMAND...
	refuse "$1" "$2" "${@:4}"
	pass "$1-and-says-so-by-mail" grep -q "^Subject: unwind-lts on .*: $2" "$UPDATE/mail"
	pass "$1-and-says-what-is-published" grep -qx "published:  6.12.900.2+unwind$when" "$UPDATE/mail"
	pass "$1-and-goes-no-further" test "$(calls)" = "$3"
	pass "$1-and-leaves-what-is-published" test "$(published)" = '6.12.900.1 6.12.900.2'
	pass "$1-and-leaves-tree-and-packages" intact 6.12.900-2 6.12.900.2
}
: > "$UPDATE/offline"
stopped update-without-an-answer-of-apt 'linux-source-6.12: reading the package lists failed' '' update x 6.12.902-1
rm "$UPDATE/offline"
sed -i '/security/d' "$UPDATE/archives"
stopped update-without-the-security-archive "linux-source-6.12: Debian's security archive is not" '' update x 6.12.902-1
echo 'Packages Debian bookworm-security' >> "$UPDATE/archives"
for name in deb deb-test repo; do
	: > "$UPDATE/fails-$name"
	case $name in
	deb) text='building' calls='deb cloud' ;;
	deb-test) text='booting' calls='deb cloud deb-test boot' ;;
	repo) text='publishing' calls='deb cloud deb-test boot repo' ;;
	esac
	stopped "update-whose-$name-fails" "linux-source-6.12 6.12.902-1: $text the packages failed" "$calls" update x 6.12.902-1
	pass "update-whose-$name-fails-sends-the-log" grep -q 'the compiler has said why' "$UPDATE/mail"
	pass "update-whose-$name-fails-leaves-no-objects" test ! -e "$UNWIND_BUILD/deb-cloud"
	rm "$UPDATE/fails-$name"
done
: > "$UPDATE/kills"
{ update x 6.12.902-1 || true; } > "$tmp/out" 2>&1
rm "$UPDATE/kills"
pass update-that-is-killed-had-another-tree grep -qx 6.12.902-1 "$UNWIND_TREE.state/base"
pass update-after-one-that-was-killed update x 6.12.900-2
pass update-after-one-that-was-killed-puts-it-back intact 6.12.900-2 6.12.900.2
echo edit >> "$repo/patches/cover.md"
stopped update-of-edits "linux-source-6.12 6.12.902-1: $repo has edits that no commit has" '' update x 6.12.902-1
git -C "$repo" clean -qfd
sed -i 's/^ 17$/ seventeen/' "$repo/patches/0001-"*
commit
stopped update-to-which-a-patch-does-not-apply \
	'linux-source-6.12 6.12.902-1: 0001-kernel-one-spell-out-twenty.patch does not apply' '' update x 6.12.902-1 6.12.900-2
pass update-where-a-patch-does-not-apply-names-the-file grep -q '^kernel/one, line 17:$' "$UPDATE/mail"
pass update-where-a-patch-does-not-apply-has-the-hunk test "$(grep -cE '^(@@ -17,7 | seventeen$|\+twenty$)' "$UPDATE/mail")" = 3
pass update-where-a-patch-does-not-apply-says-what-apt-offers grep -qx 'apt offers: 6.12.902-1 6.12.900-2' "$UPDATE/mail"
pass update-where-a-patch-does-not-apply-says-how-to-see-it grep -q 'UNWIND_BASE=6.12.902-1 make tree' "$UPDATE/mail"
sed -i 's/^ seventeen$/ 17/' "$repo/patches/0001-"*
commit
when=$(cd "$repo" && UNWIND_BUILD=$tmp/build bash -euc '. harness/lib.sh; package_time')
mailto=
pass update-goes-on-when-the-patch-is-mended update "6.12.902.1+unwind$when" 6.12.902-1
pass update-without-an-address-sends-nothing test ! -e "$UPDATE/mail"
pass update-has-published-that test "$(published)" = '6.12.900.1 6.12.900.2 6.12.902.1'
sed -i '$a# changed' "$repo/patches/series"
GIT_COMMITTER_DATE="@$(($(date +%s) + 120))" commit
pass update-where-only-the-series-has-changed update "6.12.902.1+unwind$when.1" 6.12.902-1
pass update-builds-it-then test "$(calls)" = 'deb cloud deb-test boot repo'
echo x >> "$UNWIND_TREE/kernel/two"
refuse update-of-an-edited-tree 'has edits that were not written back' update x 6.12.903-1
pass update-of-an-edited-tree-builds-nothing test -z "$(calls)"
rm -r "$REPO"
mkdir "$REPO"
refuse update-of-an-edited-tree-of-the-same-source 'has edits that were not written back' update x 6.12.902-1
pass update-keeps-the-edits grep -qx x "$UNWIND_TREE/kernel/two"
(
	exec 7> "$UNWIND_BUILD/update.lock"
	flock 7
	! update x 6.12.902-1 > "$tmp/out" 2>&1 7>&-
) && rc=0 || rc=1
grep -q 'another update runs' "$tmp/out" || rc=1
result "$rc" update-beside-another-one-is-refused

# All that apt offers, one of which the series does not apply to
base_package 6.12.901-1 0 15
# shellcheck disable=SC2016
fake "$repo/harness/build" <<< 'echo "build $* $(cat "$UNWIND_TREE.state/base")" >> "$UPDATE/called"'
# shellcheck disable=SC2016
fake "$repo/harness/run" <<< '[[ ! -e $UPDATE/fails-run ]] || { echo "boot: error: it hangs"; exit 1; }; echo "run $*" >> "$UPDATE/called"'
all() { # BUILD OFFERED...
	printf '%s\n' "${@:2}" | sed '/^$/d' > "$UPDATE/offered"
	: > "$UPDATE/called"
	PATH=$UPDATE/bin:$PATH env -u UNWIND_BASE "$repo/harness/update-all" ${1:+"$1"}
}
refuse update-all-fails-where-one-does '1 of 3 versions failed' all '' 6.12.902-1 6.12.901-1 6.12.900-2
grep -v 'error: 1 of' "$tmp/out" | sed 's/ does not apply.*//' > "$tmp/lines"
pass update-all-tries-the-oldest-first-and-goes-on diff "$tmp/lines" - << 'END'
update-all: 6.12.900-2: applies, 1 hunks at an offset
update-all: 6.12.901-1: FAILED: 0001-kernel-one-spell-out-twenty.patch
update-all: 6.12.902-1: applies
END
pass update-all-builds-nothing-by-itself test -z "$(calls)"
pass update-all-builds-and-boots all build 6.12.902-1 6.12.900-2
pass update-all-builds-and-boots-each test "$(calls)" = \
	'build feature 6.12.900-2 run uname -r | grep -x 6.12.900-unwind build feature 6.12.902-1 run uname -r | grep -x 6.12.902-unwind'
: > "$UPDATE/fails-run"
refuse update-all-says-what-does-not-boot '6.12.902-1: FAILED: applies, it hangs' all build 6.12.902-1
refuse update-all-takes-no-other-word 'takes nothing or build' all version 6.12.902-1
refuse update-all-of-nothing 'apt offers no linux-source-6.12' all ''
pass update-all-leaves-the-tree-alone grep -qx x "$UNWIND_TREE/kernel/two"
unset REPO UPDATE

# The service as systemd calls it
line=$(sed -n 's/^ExecStart=//p' "$harness/../packaging/unwind-update.service")
CLONE=$harness/.. CONFIG=host bash -c "$line -n" > "$tmp/out" 2>&1 && rc=0 || rc=1
grep -qx "harness/update 'host'" "$tmp/out" || rc=1
result "$rc" update-is-what-the-service-calls
