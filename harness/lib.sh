# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Shared by the verbs: paths, stage lines, the toolchain root. Every path can be moved by the
# variable of the same name.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

# BASE says which linux-source-* the series is for. Any but 6.12 has a series of its own,
# and objects, logs and the tree in a directory of its name.
BASE=${BASE:-6.12}
patches=patches
case $BASE in
6.12) ;;
7.3) patches=patches/mainline ;;
*) echo "${0##*/}: error: there is no series for BASE=$BASE: 6.12 or 7.3" >&2; exit 1 ;;
esac

UNWIND_CACHE=${UNWIND_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/unwind-lts}
UNWIND_BUILD=${UNWIND_BUILD:-$top/build}
[[ $BASE = 6.12 || $UNWIND_BUILD = */"$BASE" ]] || UNWIND_BUILD+=/$BASE
UNWIND_ROOT=${UNWIND_ROOT:-$UNWIND_CACHE/root-trixie}
UNWIND_TREE=${UNWIND_TREE:-$UNWIND_BUILD/tree}
UNWIND_LOGS=${UNWIND_LOGS:-$UNWIND_BUILD/logs}
for dir in top UNWIND_CACHE UNWIND_BUILD UNWIND_ROOT UNWIND_TREE UNWIND_LOGS; do
	# kbuild, QEMU's options and shell words each have one they cannot take.
	if [[ ${!dir} =~ [[:space:]:,%\"\'] ]]; then
		echo "${0##*/}: error: no blanks, colons, commas, quotes or % in paths: ${!dir}" >&2
		exit 1
	fi
	printf -v "$dir" %s "$(realpath -m -- "${!dir}")"
done
export UNWIND_CACHE UNWIND_BUILD UNWIND_ROOT UNWIND_TREE UNWIND_LOGS
mkdir -p "$UNWIND_CACHE" "$UNWIND_BUILD" "$UNWIND_LOGS"

verb=${0##*/}

say() { printf '%s: %s\n' "$verb" "$*"; }
die() { printf '%s: error: %s\n' "$verb" "$*" >&2; exit 1; }

# stage NAME WHAT COMMAND... - one line before, one after; output to NAME.log
stage() {
	local what=$2 log=$UNWIND_LOGS/$1.log start=$SECONDS
	shift 2
	printf '%s: %s ...\n' "$verb" "$what"
	if "$@" > "$log" 2>&1 < /dev/null; then
		printf '%s: %s: done in %d s\n' "$verb" "$what" $((SECONDS - start))
		return 0
	fi
	printf '%s: error: %s failed after %d s, log: %s\n' \
		"$verb" "$what" $((SECONDS - start)) "$log" >&2
	[[ -z ${CI:-} ]] || tail -n 40 "$log" >&2
	return 1
}

# result STATUS NAME [LOG] - a line of TAP, and the end of the log of what has failed
n=0 failed=0
result() {
	n=$((n + 1))
	if (($1 == 0)); then
		echo "ok $n $2"
	else
		failed=$((failed + 1))
		echo "not ok $n $2"
		tail -n 60 "${3:-/dev/null}" | sed 's/^/# /'
	fi
}

# hash_of FILE... - one hash over names and contents, in a fixed order
hash_of() {
	find "$@" -type f -print0 | sort -z | xargs -0 sha256sum |
		sed "s# $top/# #" | sha256sum | cut -c 1-16
}

# stamped FILE KEY - true where FILE says that work with this KEY was finished
stamped() { [[ -e $1 && $(cat "$1") = "$2" ]]; }
stamp() { printf '%s\n' "$2" > "$1"; }

# may_mount - end with a line that says why, where a toolchain root cannot be made or entered
may_mount() {
	! unshare --mount --propagation private true 2> /dev/null || return 0
	((EUID == 0)) || die "only root can do this, as it mounts: on this machine, or in a privileged container (docs/trying.md)"
	die "root may not mount here: a container has to be started with --privileged (docs/trying.md)"
}

# in_root COMMAND - run a shell command inside the toolchain root. The mounts live in a private
# namespace and disappear with it, however the command ends.
in_root() {
	"$top/harness/enter" "$@"
}

# beside COMMAND... - run in the background, as a process group of its own that
# ends with this process, however it ends
beside() {
	trap end_beside EXIT
	set -m
	"$@" &
	set +m
}
end_beside() {
	local group
	for group in $(jobs -pr); do
		if kill -- "-$group" 2> /dev/null; then wait "$group" || true; fi
	done
}

# browse PROFILE URL OPTION... - a page as it is when its scripts have run, in Debian's
# chromium, without a window and without using the network
browse() {
	local profile=$1 url=$2
	shift 2
	timeout 300 chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
		--disable-background-networking --disable-component-update --disable-sync \
		--user-data-dir="$profile" --window-size=1400,700 --virtual-time-budget=20000 \
		"$@" --dump-dom "$url"
}

fragments() { printf "$top/configs/%s.config " "$@"; }

# use_root - the toolchain root stays as it is while this process lives
use_root() {
	[[ ! -e $UNWIND_ROOT.lock ]] || { exec 9< "$UNWIND_ROOT.lock" && flock -s 9; }
}

# use_emulator - set tools, where it is, and qemu, its command: the toolchain root's,
# run by that root's own loader. The host's may be too old: QEMU 7.2 goes on executing
# int3 bytes that the kernel has patched out again while several CPUs run, and the
# guest dies of it.
use_emulator() {
	tools=$UNWIND_ROOT/usr
	# shellcheck disable=SC2034 # for the caller
	qemu=("$tools/lib64/ld-linux-x86-64.so.2" --inhibit-cache
		--library-path "$tools/lib/x86_64-linux-gnu" "$tools/bin/qemu-system-x86_64"
		-L "$tools/share/seabios" -L "$tools/share/qemu")
}

# host_mirror - the Debian mirror the host's apt uses for its own release
host_mirror() {
	# shellcheck disable=SC2016 # apt's own format
	apt-get indextargets --format '$(CREATED_BY) $(ORIGIN) $(COMPONENT) $(CODENAME) $(REPO_URI)' |
		awk '$1 == "Packages" && $2 == "Debian" && $3 == "main" &&
			$4 !~ /-/ && !seen++ { print $5 }'
}

apt_update() { apt-get update -q -o Acquire::Retries=3; }
apt_install() { # PACKAGE...
	apt_update && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
		-o Acquire::Retries=3 -o DPkg::Lock::Timeout=600 "$@"
}

# use_mirror - set mirror and keyring, for downloads from Debian
use_mirror() {
	mirror=${UNWIND_MIRROR:-$(host_mirror)}
	if [[ -z $mirror ]]; then
		stage apt-update "reading the package lists" apt_update
		mirror=$(host_mirror)
	fi
	[[ -n $mirror ]] || die "no Debian mirror in the host's apt configuration: set UNWIND_MIRROR"
	# shellcheck disable=SC2034 # for the caller
	keyring=${UNWIND_KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}
}

# base_apt PROGRAM ARGUMENT... - apt, where the base is offered: on the host for 6.12, and in the
# backports of the toolchain root's suite, on that root's mirror, for any other. There it runs
# in the current directory, if the root has that one.
base_apt() {
	local dir=$UNWIND_CACHE/base/backports list=$UNWIND_ROOT/etc/apt/sources.list
	if [[ $BASE = 6.12 ]]; then
		"$@"
		return
	fi
	mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
	sed -n 's/ trixie main$/ trixie-backports main/p' "$list" > "$dir/sources.list" || return
	in_root "cd '$PWD' 2> /dev/null || true; $1 -o Dir::Etc::SourceList='$dir/sources.list' -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::State::Lists='$dir/lists' -o Dir::Cache='$dir/cache' -o Acquire::Languages=none ${*:2}"
}

# base_versions - versions of the base package that apt offers, newest first
base_package=linux-source-$BASE
base_versions() {
	base_apt apt-cache madison "$base_package" 2> /dev/null | awk '{ print $3 }' | sort -urV
}
upstream_of() { local v=${1%%-*}; echo "${v#*:}"; }

# package_time - the time of the last commit that changed the inputs of packages; edits that are
# in no commit count as later
package_time() {
	local when
	when=$(TZ=UTC0 git -C "$top" log -1 --format=%cd --date=format-local:%Y%m%d.%H%M -- \
		arch configs include kernel lib packaging patches samples tools \
		':!patches/mainline' 2> /dev/null) || true
	[[ -n $when ]] || die "no commit in $top to take a version from"
	[[ -z $(git -C "$top" status --porcelain) ]] || when+=+edited
	echo "$when"
}

# package_version BASE TIME, package_release BASE TIME FLAVOUR - 6.12.117-2 of Debian becomes
# 6.12.117.2+unwindTIME-1 and 6.12.117.2-unwind.TIME-FLAVOUR. With a dash or a plus before the
# revision, they would count as older than those of earlier commits, which had none. A
# tilde (6.12.117-1~deb12u1) becomes a dash in the release, which menus, linux-version and
# systemd sort before the dash of 6.12.117.1-unwind: "deb" and "bpo" before "unwind".
package_version() { local base=${1#*:}; echo "${base//[-+]/.}+unwind$2-1"; }
package_release() {
	local base=${1#*:}
	base=${base//[-+]/.}
	echo "${base//\~/-}-unwind.${2/+/.}-$3"
}

# flavour_of CONFIG - how the releases of a configuration end
flavour_of() {
	case $1 in
	generic) echo amd64 ;;
	feature) echo feature ;;
	*) echo "$(basename "${1%.config}" | tr -c 'a-z0-9.\n' -)-amd64" ;;
	esac
}

# tools_source DIR VERSION RELEASE FLAVOUR CHANGE - packaging/debian with these in it, and a
# changelog. DEBFULLNAME and DEBEMAIL name the maintainer.
tools_source() {
	cp -r "$top/packaging/debian" "$1/debian"
	sed -i "s|@MAINTAINER@|$DEBFULLNAME <$DEBEMAIL>|; s|@RELEASE@|$3|; s|@FLAVOUR@|$4|g" "$1/debian/control"
	cat > "$1/debian/changelog" <<-EOF
		unwind-lts ($2) trixie; urgency=medium

		  * $5

		 -- $DEBFULLNAME <$DEBEMAIL>  $(LC_ALL=C date -R)
	EOF
}

# git without the user's configuration, and with the same dates every time
tgit() {
	GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null \
	GIT_COMMITTER_NAME=unwind GIT_COMMITTER_EMAIL=unwind@localhost \
		git -C "${tgit_dir:-$UNWIND_TREE}" -c safe.directory='*' \
		-c core.autocrlf=false -c diff.algorithm=myers -c diff.noprefix=false \
		-c diff.context=3 -c diff.renames=false -c diff.indentHeuristic=true \
		-c gc.auto=0 -c advice.detachedHead=false "$@"
}

# series_steps - the patch names in order; series_adds NAME - the files that it adds;
# series_paths - those of all. The series of another base has its order in one file, and which of
# the new files here are copied with which step in another.
series=$top/$patches/series
series_files=$series
[[ $BASE = 6.12 ]] || series_files=$top/$patches/files
series_steps() { grep -vE '^([[:space:]]|#|$)' "$series" || true; }
series_adds() {
	awk -v want="$1" '/^[^ \t#]/ { on = $1 == want }
		on && $1 == "+" { print $2 }' "$series_files"
}
series_paths() { awk '$1 == "+" { print $2 }' "$series_files"; }

# patched FILE - the paths that a patch has hunks for
patched() { sed '1,/^---$/d' "$1" | sed -n 's#^--- a/##p'; }

# has_hunks FILE - false for a step that only adds files
has_hunks() { grep -q '^diff --git ' "$1"; }

# series_inputs - the inputs of the tree, one "hash path" line each
series_inputs() {
	(cd "$top" && {
		printf '%s\n' "$patches/series" "$patches/${series_files##*/}"
		series_steps | sed "s#^#$patches/#"
		series_paths
	} | sort -u | xargs -d '\n' sha256sum)
}
series_unchanged() { [[ -e $1 && $(series_inputs) = "$(cat "$1")" ]]; }
