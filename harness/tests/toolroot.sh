# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# toolroot with a made-up mmdebstrap. Sourced by run, which sets these:
: "${tmp:?}" "${harness:?}"

mkdir -p "$tmp/bin"
fake "$tmp/bin/mmdebstrap" << 'END'
# Makes the root that the arguments name, and fails half-way where asked to.
args=("$@")
root=${args[-2]}
echo "${args[-3]}" > "${root%/*}/suite"
mkdir -p "$root/bin" "$root/usr"
cp /bin/true "$root/bin/bash"
echo run >> "$FAKE_RUNS"
while [[ -e $FAKE_HOLDS ]]; do sleep 0.1; done
[[ ! -e $FAKE_FAILS ]] || exit 1
: > "$root/usr/complete"
END

toolroot() {
	PATH=$tmp/bin:$PATH FAKE_FAILS=$tmp/fails FAKE_HOLDS=$tmp/holds FAKE_RUNS=$tmp/runs \
		UNWIND_MIRROR=file:/nowhere \
		UNWIND_CACHE=$tmp/roots UNWIND_BUILD=$tmp/roots UNWIND_LOGS=$tmp/roots \
		env -u CI -u UNWIND_ROOT ${in_ci:+CI=true} "$harness/toolroot" "$@"
}
: > "$tmp/fails"
refuse toolroot-that-fails-half-way-says-so 'making the forky root failed' toolroot forky
rm "$tmp/fails"
pass toolroot-starts-again-after-that toolroot forky
pass toolroot-is-complete-then test -e "$tmp/roots/root-forky/usr/complete"
: > "$tmp/fails"
pass toolroot-is-made-once toolroot forky
rm "$tmp/fails"
pass toolroot-of-programs-is-another toolroot programs
pass toolroot-of-programs-is-complete test -e "$tmp/roots/root-programs/usr/complete"
pass toolroot-of-hotspot-is-another toolroot hotspot
pass toolroot-of-hotspot-is-of-debian-12 grep -qx 'bookworm' "$tmp/roots/suite"
refuse toolroot-of-another-name-is-refused 'unknown root bookworm' toolroot bookworm
# On a host without a browser, whose apt prints its arguments, and fails
mkdir "$tmp/few"
ln -s -t "$tmp/few" /usr/bin/*
rm -f "$tmp"/few/{apt-get,chromium,npm}
fake "$tmp/few/apt-get" << 'END'
echo "$*"
[[ $1 = update ]]
END
on_bare_host() { PATH=$tmp/few toolroot forky; }
pass toolroot-does-without-a-browser on_bare_host
in_ci=yes
refuse toolroot-in-ci-installs-a-browser ' chromium npm' on_bare_host
in_ci=

: > "$tmp/fails"
rm "$tmp/roots/root-forky.stamp"
refuse toolroot-without-stamp-is-made-again 'making the forky root failed' toolroot forky

# Two checkouts with one cache: the second one waits, and makes nothing again.
until_true() { # COMMAND... - give up after a minute
	local tries=600
	until "$@" 2> /dev/null; do ((tries--)) && sleep 0.1 || return 1; done
}
rm -rf "$tmp/fails" "$tmp/runs" "$tmp/roots"
: > "$tmp/holds"
toolroot forky > "$tmp/first" 2>&1 &
first=$!
pass toolroot-is-being-made until_true test -e "$tmp/runs"
toolroot forky > "$tmp/second" 2>&1 &
second=$!
pass second-toolroot-says-that-it-waits until_true grep -q 'waiting for another run' "$tmp/second"
rm "$tmp/holds"
pass first-toolroot-ends-well wait "$first"
pass second-toolroot-ends-well wait "$second"
pass toolroot-was-made-once test "$(wc -l < "$tmp/runs")" = 1

# A root that somebody else made may lack later packages.
mkdir -p "$tmp/bare/bin"
cp /bin/true "$tmp/bare/bin/bash"
refuse boot-without-an-emulator-says-so 'no emulator in the toolchain root' \
	env UNWIND_CACHE="$tmp/roots" UNWIND_BUILD="$tmp/bare" UNWIND_ROOT="$tmp/bare" \
	"$harness/boot" -k /dev/null true

# An emulator that ends by itself says nothing of the kernel: booted again.
mkdir -p "$tmp"/bare/usr/{bin,lib64}
cp /bin/true "$tmp/bare/usr/bin/qemu-system-x86_64"
fake "$tmp/bare/usr/lib64/ld-linux-x86-64.so.2" << END
echo run >> '$tmp/emulated'
[[ \$(wc -l < '$tmp/emulated') != 1 ]] || kill -SEGV \$\$
end=\$(printf '%s\n' "\$@" | sed -n 's/^file,id=end,path=//p')
[[ ! -e $tmp/ends ]] || echo 'END status=3' > "\$end"
END
emulated() { # NAME STATUS RUNS [VARIABLE=VALUE...] - how boot ends, and how many runs of the emulator there were
	local rc=0
	env UNWIND_ACCEL=none UNWIND_CACHE="$tmp/roots" UNWIND_BUILD="$tmp/bare" UNWIND_ROOT="$tmp/bare" "${@:4}" \
		"$harness/boot" -k /dev/null true > "$tmp/said" 2>&1 || rc=$?
	pass "$1" test "$rc $(wc -l < "$tmp/emulated")" = "$2 $3"
}
: > "$tmp/ends"
emulated boot-again-where-the-emulator-ended-by-itself 3 2
rm "$tmp/ends"
emulated boot-not-again-where-the-guest-ended 121 3

# One that hangs before the guest begins is ended, and booted again; not one that hangs later.
rm "$tmp/emulated"
fake "$tmp/bare/usr/lib64/ld-linux-x86-64.so.2" << END
echo run >> '$tmp/emulated'
serial() { printf '%s\n' "\$@" | sed -n "s/^file:\(.*\)/\1/p"; }
pid=\$(printf '%s\n' "\$@" | sed -n '/^-pidfile\$/{n;p}')
echo \$\$ > "\$pid"
[[ \$(wc -l < '$tmp/emulated') = 1 ]] || echo 'init: begins' > "\$(serial "\$@")"
exec sleep 5
END
emulated boot-again-where-the-guest-does-not-begin 121 2 UNWIND_ACCEL=tcg UNWIND_BEGIN=2
