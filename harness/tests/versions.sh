# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Versions and releases of the packages. Sourced by run, which sets these:
: "${tmp:?}" "${harness:?}"

of() { # FUNCTION ARGUMENT... - the output of a function of lib.sh
	# shellcheck disable=SC2016 # expands in the inner shell
	UNWIND_CACHE=$tmp/versions UNWIND_BUILD=$tmp/versions \
		bash -euc 'lib=$1; shift; . "$lib"; "$@"' of "$harness/lib.sh" "$@"
}

# Oldest first: a version and its release. Versions of Debian's, and those built up to
# commit 238f924, from 6.12.117-1~deb12u1, stand here as they are. The other lines begin
# with =, and have a version of Debian's source and the time of a commit.
while read -r version release time; do
	if [[ $version = '=' ]]; then
		version=$(of package_version "$release" "$time")
		release=$(of package_release "$release" "$time" amd64)
	fi
	echo "$version $release"
done > "$tmp/ordered" << 'END'
6.12.117-1~deb12u1 6.12.117+deb12-amd64
6.12.117-1 6.12.117+deb13-amd64
6.12.117+unwind20261122.2143-1 6.12.117-unwind-amd64
6.12.117+unwind20261128.0502-1 6.12.117-unwind.20261128.0502-amd64
= 6.12.117-1~bpo12+1 20261129.0000
= 6.12.117-1~deb12u1 20261129.0000
= 6.12.117-1~deb12u2 20261128.0000
= 6.12.117-1 20261127.0000
= 6.12.117-1 20261127.0000+edited
= 6.12.117-1 20261127.0001
= 6.12.117-1 20261201.0000
= 6.12.117-1+deb13u1 20261127.0000
= 6.12.117-1+deb13u2 20261127.0000
= 6.12.117-2~deb12u1 20261127.0000
= 6.12.117-2 20261127.0000
= 6.12.117-10 20261127.0000
6.12.118-1 6.12.118+deb13-amd64
6.12.118+unwind20261128.0502-1 6.12.118-unwind.20261128.0502-amd64
= 6.12.118-1~deb12u1 20261127.0000
= 1:6.12.118-1 20261127.0000
END

in_order() { # COMMAND... - is no line older than the one before?
	local older='' line
	while read -r line; do
		[[ -z $older ]] || "$@" "$older" lt "$line" || { echo "$line is not newer than $older"; return 1; }
		older=$line
	done
}
versions() { cut -d ' ' -f 1 "$tmp/ordered"; }
releases() { cut -d ' ' -f 2 "$tmp/ordered"; }
# As grub-mkconfig 2.12 does, with its version_sort
menu() {
	sed 's,^,/boot/vmlinuz-,' | sed -e 's/\.old$/ 1/; / 1$/! s/$/ 2/' | LC_ALL=C sort -V -r |
		sed -e 's/ 1$/.old/; s/ 2$//; s,/boot/vmlinuz-,,'
}
pass versions-are-in-order-for-dpkg in_order dpkg --compare-versions < <(versions)
pass versions-are-in-order-in-the-menu diff <(releases | menu) <(releases | tac)
pass releases-are-all-different test "$(releases | sort -u | wc -l)" = "$(wc -l < "$tmp/ordered")"
pass releases-have-only-what-names-of-packages-have bash -c "! grep -vE '^[a-z0-9][a-z0-9+.-]+$'" < <(releases)
longest=$(of package_release 6.12.117-10~deb12u10 20261129.0000+edited cloud-amd64)
pass releases-are-short-enough-for-the-kernel test "${#longest}" -le 64
