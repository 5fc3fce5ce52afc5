# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# toolroot with a made-up mmdebstrap. Sourced by run, which sets these:
: "${tmp:?}" "${harness:?}"

mkdir -p "$tmp/bin"
cat > "$tmp/bin/mmdebstrap" << 'END'
#!/bin/bash
# Makes the root that the arguments name, and fails half-way where asked to.
args=("$@")
root=${args[-2]}
mkdir -p "$root/bin" "$root/usr"
cp /bin/true "$root/bin/bash"
[[ ! -e $FAKE_FAILS ]] || exit 1
: > "$root/usr/complete"
END
chmod +x "$tmp/bin/mmdebstrap"

toolroot() {
	PATH=$tmp/bin:$PATH FAKE_FAILS=$tmp/fails UNWIND_MIRROR=file:/nowhere \
		UNWIND_CACHE=$tmp/roots UNWIND_BUILD=$tmp/roots UNWIND_LOGS=$tmp/roots \
		env -u CI -u UNWIND_ROOT "$harness/toolroot" "$@"
}
: > "$tmp/fails"
refuse toolroot-that-fails-half-way-says-so 'making the forky root failed' toolroot forky
rm "$tmp/fails"
pass toolroot-starts-again-after-that toolroot forky
pass toolroot-is-complete-then test -e "$tmp/roots/root-forky/usr/complete"
: > "$tmp/fails"
pass toolroot-is-made-once toolroot forky
rm "$tmp/roots/root-forky.stamp"
refuse toolroot-without-stamp-is-made-again 'making the forky root failed' toolroot forky
