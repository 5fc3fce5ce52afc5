# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# sources with a made-up apt-get. Sourced by run, which sets these:
: "${tmp:?}" "${harness:?}"

mkdir -p "$tmp/apt"
fake "$tmp/apt/apt-get" << 'END'
# Gives one file for a source package, and nothing where asked to fail.
[[ ! -e $FAKE_OFFLINE ]] || exit 1
[[ $* = *' source '* ]] || exit 0
echo "source of ${!#}" > "${!#}_1.orig.tar.gz"
END

sources() {
	PATH=$tmp/apt:$PATH FAKE_OFFLINE=$tmp/offline UNWIND_MIRROR=file:/nowhere \
		UNWIND_CACHE=$tmp/packages UNWIND_BUILD=$tmp/packages UNWIND_LOGS=$tmp/packages \
		env -u CI "$harness/sources" "$@"
}
pass sources-are-downloaded sources one two
: > "$tmp/offline"
sources two one > "$tmp/paths" 2>&1 || true
printf '%s\n' "$tmp"/packages/sources/{two/two,one/one}_1.orig.tar.gz > "$tmp/wanted"
pass sources-need-no-network-then cmp "$tmp/paths" "$tmp/wanted"
refuse sources-without-network-say-so 'downloading the sources of three failed' sources one three
pass sources-that-failed-leave-nothing test ! -e "$tmp/packages/sources/three"
echo damage >> "$tmp/packages/sources/one/one_1.orig.tar.gz"
refuse damaged-sources-are-refused 'is damaged' sources two one
rm "$tmp/offline"
