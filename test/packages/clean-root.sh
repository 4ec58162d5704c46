#!/usr/bin/env bash
# Installs Gleaner's packages in a clean Debian, as an administrator would: a cluster in one
# more command, an upgrade with a job running, a downgrade, and a purge. It stops at the
# first thing that is not as it should be.
#
# The Debian is made by debootstrap, once, and copied for each run. It is the root of
# namespaces of this script's own, so that nothing of it is seen outside, and nothing is left.
# systemd does not run there: a stand-in starts what the units say.
#
#   clean-root.sh     as root; FOLDER of the Debian: /var/cache/gleaner/debian-SUITE
set -euo pipefail
cd "$(dirname "$0")/../.."
suite=${SUITE:-bookworm}
base=${DEBIAN:-/var/cache/gleaner/debian-$suite}

if [ "${1-}" != inside ]; then
	command -v debootstrap >/dev/null || { echo "make packages: debootstrap is missing: apt-get install debootstrap"; exit 1; }
	if [ ! -d "$base" ]; then
		mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Created-By: Packages' 2>/dev/null | grep -m 1 '/debian/$' || true)
		echo "packages: making Debian $suite in $base"
		rm -rf --one-file-system "$base.new"
		debootstrap --variant=minbase --include=iproute2,kmod "$suite" "$base.new" "${mirror:-http://deb.debian.org/debian/}" >/dev/null
		mv "$base.new" "$base"
	fi
	work=$(mktemp -d /var/tmp/packages.XXXXXX)
	trap 'rm -rf --one-file-system "$work"' EXIT
	cp -a "$base" "$work/root"
	mkdir -p "$work/root/debs"
	# The same programs as a version and the next; what a packager changes in between does
	# not matter to dpkg.
	VERSION=1.0 COMPRESS=-Znone contrib/package/deb.sh "$(dpkg --print-architecture)" bin "$work/root/debs" >/dev/null
	VERSION=1.1 COMPRESS=-Znone contrib/package/deb.sh "$(dpkg --print-architecture)" bin "$work/root/debs" >/dev/null
	# What apt asks for lies on the mirror of this machine, and its proxy if there is one.
	cp -L /etc/resolv.conf "$work/root/etc/" 2>/dev/null || true
	apt-config dump | grep -i '^Acquire::https\?::Proxy' >"$work/root/etc/apt/apt.conf.d/01proxy" || true
	chroot "$work/root" apt-get -qq update
	chroot "$work/root" apt-get -qq install -y --no-install-recommends --download-only adduser libseccomp2 libsqlite3-0 e2fsprogs kmod >/dev/null
	unshare --mount --uts --ipc --net --pid --fork --kill-child --propagation private \
		"$PWD/test/packages/$(basename "$0")" inside "$work/root"
	exit
fi

# As process 1 of the namespaces. pivot_root: the kernel gives no user namespace to a
# process whose root is a chroot.
root=$2
hostname clean
ip link set lo up
mount --bind "$root" "$root"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/run"
install test/packages/systemctl "$root/usr/bin/systemctl"
install test/packages/story.sh "$root/story.sh"
mkdir -p "$root/former"
cd "$root"
pivot_root . former
mount --make-rprivate /former 2>/dev/null || true
umount -l /former
unset GLEANER_CONTROLLER GLEANER_TLS_DIR
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C
bash /story.sh </dev/null
