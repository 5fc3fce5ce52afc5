# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The toolchain root with fewer rights than root has. Sourced by run, which sets these:
: "${tmp:?}" "${harness:?}"

# with CAPABILITIES COMMAND... - as root that has only these
with() { setpriv --bounding-set "-all,+${1// /,+}" --inh-caps -all "${@:2}"; }
podman='chown dac_override fowner fsetid kill net_bind_service setfcap setgid setpcap setuid sys_chroot'
docker="$podman audit_write mknod net_raw"
pass enter-with-all-rights "$harness/enter" true
pass enter-with-the-rights-of-podman-and-one-more with "$podman sys_admin" "$harness/enter" true
refuse enter-with-the-rights-of-podman 'enter: error: root may not mount here: a container' with "$podman" "$harness/enter" true
refuse enter-with-the-rights-of-docker 'enter: error: root may not mount here: a container' with "$docker" "$harness/enter" true
pass enter-without-the-right-says-no-more test "$(wc -l < "$tmp/out")" = 1

# Another user, who has to be able to read it
chmod 755 "$tmp"
mkdir -p "$tmp/others/harness"
cp "$harness"/{lib.sh,enter,toolroot} "$tmp/others/harness/"
chown -R 65534:65534 "$tmp/others"
as_user() {
	setpriv --reuid 65534 --regid 65534 --clear-groups env UNWIND_CACHE="$tmp/others" UNWIND_BUILD="$tmp/others" \
		UNWIND_TREE="$tmp/others" UNWIND_LOGS="$tmp/others" UNWIND_ROOT="$1" "$tmp/others/harness/$2" "${@:3}"
}
mkdir -p "$tmp/somewhere/bin"
cp /bin/true "$tmp/somewhere/bin/bash"
refuse enter-by-a-user 'enter: error: only root can do this' as_user "$tmp/somewhere" enter true
pass enter-by-a-user-says-no-more test "$(wc -l < "$tmp/out")" = 1
refuse toolroot-by-a-user 'toolroot: error: only root can do this' as_user "$tmp/others/root-trixie" toolroot
refuse toolroot-with-the-rights-of-docker 'toolroot: error: root may not mount here' \
	with "$docker" env UNWIND_CACHE="$tmp/others" UNWIND_ROOT="$tmp/others/root-trixie" "$harness/toolroot"
