#!/usr/bin/env bash
# Installs what building and testing Gleaner needs in addition to Go and a C
# compiler: the headers of libseccomp and SQLite, pkg-config, and for the tests nft, which cuts off
# networks, procps, which looks for leftovers of a job, and bubblewrap, which makes containers inside of
# jobs. Does nothing, and asks nothing, if they are there.
#
#   debian.sh machine    what test/machine needs: qemu, and Debian's kernel,
#                        which is unpacked into the cache, not installed
#   debian.sh criu       CRIU, which saves and restores jobs, in a separate folder,
#                        if this machine's does not work; part of the above
#   debian.sh programs   the small programs that make migrations moves, if missing
#   debian.sh mpi        Open MPI, and the libraries of PMIx and PMI-2, for the story mpi; what
#                        mpicc and mpirun call does not change where there is an MPI already
#   debian.sh slurm      Slurm for make bench, in a separate folder
#   debian.sh postgres   PostgreSQL for the tests of ctld/history, which start a server of
#                        their own; no server is set up on this machine
#   debian.sh munge      munged for the tests of proto/munge and ctld, which start their own
set -euo pipefail

cannot() { echo "setup: $*" >&2; exit 1; }

# as_root COMMAND...
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		cannot "run as root: $*"
	fi
}

# install PACKAGE...
install() {
	command -v apt-get >/dev/null || cannot "install these, or what your system calls them, with its package manager: $*"
	echo "setup: installing $*"
	export DEBIAN_FRONTEND=noninteractive
	as_root apt-get -qq update
	as_root apt-get -qq install -y --no-install-recommends "$@" >/dev/null
}

# kernel_package: the package that holds Debian's small kernel for virtual machines.
kernel_package() {
	apt-cache depends linux-image-cloud-amd64 2>/dev/null | awk '$1 == "Depends:" && $2 ~ /^linux-image-/ { print $2; exit }'
}

# fetch_kernel DIRECTORY: the kernel, and the modules that are needed: overlay, loop, those
# by which CRIU asks for the sockets of what it saves, those without which it
# does not start, and WireGuard with what it needs.
modules=(overlay loop inet_diag raw_diag tcp_diag udp_diag unix_diag netlink_diag af_packet_diag nf_tables nfnetlink libcrc32c
	tun veth wireguard udp_tunnel ip6_udp_tunnel libchacha20poly1305 libchacha chacha-x86_64 poly1305-x86_64 curve25519-x86_64 libcurve25519-generic)
fetch_kernel() {
	command -v apt-get >/dev/null || cannot "test/machine needs a kernel of 5.19 or later: put vmlinuz and modules/*.ko into $1, of ${modules[*]}"
	package=$(kernel_package)
	if [ -z "$package" ]; then
		as_root apt-get -qq update
		package=$(kernel_package)
	fi
	[ -n "$package" ] || cannot "apt-get knows no package linux-image-cloud-amd64"
	echo "setup: unpacking $package into $1"
	mkdir -p "$(dirname "$1")"
	work=$(mktemp -d "$1.XXXXXX")
	trap 'rm -rf --one-file-system "$work"' EXIT
	(cd "$work" && apt-get -qq -o APT::Sandbox::User=root download "$package")
	files=("${modules[@]/#/*/}")
	dpkg --fsys-tarfile "$work"/*.deb | tar -x -C "$work" --wildcards './boot/vmlinuz-*' "${files[@]/%/.ko}"
	mkdir -p "$work/kernel/modules"
	mv "$work"/boot/vmlinuz-* "$work/kernel/vmlinuz"
	find "$work/lib" -name '*.ko' -exec mv {} "$work/kernel/modules/" \;
	echo "$package" >"$work/kernel/package"
	rm -rf --one-file-system "$1"
	mv "$work/kernel" "$1"
}

# have_criu: somebody who is not root cannot see whether it works.
have_criu() {
	[ "$(id -u)" -ne 0 ] && { [ -x /usr/local/lib/gleaner/criu/criu ] || command -v criu || [ -x /usr/sbin/criu ]; } >/dev/null
}

case "${1-}" in
'')
	command -v go >/dev/null || cannot "go is missing: install Go 1.26 or later (https://go.dev/dl)"
	command -v cc >/dev/null || command -v gcc >/dev/null || cannot "a C compiler is missing: apt-get install gcc libc6-dev"
	if ! { command -v pkg-config && pkg-config --exists libseccomp sqlite3 && command -v pkill && command -v bwrap && command -v mksquashfs && PATH=$PATH:/usr/sbin command -v nft; } >/dev/null; then
		install libseccomp-dev libsqlite3-dev pkg-config procps nftables bubblewrap squashfs-tools
	fi
	have_criu || as_root "$(dirname "$0")/criu.sh" || echo "setup: continuing without CRIU: jobs cannot be saved and moved on this machine" >&2
	;;
criu)
	shift
	as_root "$(dirname "$0")/criu.sh" "$@"
	;;
machine)
	PATH=$PATH:/usr/sbin:/sbin
	[ "$(uname -m)" = x86_64 ] || cannot "test/machine has a kernel for amd64 only"
	if ! { command -v qemu-system-x86_64 && command -v mke2fs && command -v perl; } >/dev/null; then
		install qemu-system-x86 e2fsprogs perl-base
	fi
	kernel=${XDG_CACHE_HOME:-$HOME/.cache}/gleaner/machine
	[ -f "$kernel/vmlinuz" ] && [ -f "$kernel/modules/wireguard.ko" ] || fetch_kernel "$kernel"
	;;
programs)
	missing=()
	for program in bc jq mpicc:libmpich-dev mpiexec.hydra:mpich rsync screen sqlite3 strace tclsh:tcl tmux xz:xz-utils zstd; do
		command -v "${program%:*}" >/dev/null || missing+=("${program#*:}")
	done
	/usr/bin/python3 -c 'import numpy' 2>/dev/null || missing+=(python3-numpy)
	[ "${#missing[@]}" -eq 0 ] || install "${missing[@]}"
	;;
mpi)
	missing=() chosen=()
	for name in mpi "mpi-$(gcc -print-multiarch)" mpirun; do
		if path=$(update-alternatives --query "$name" 2>/dev/null | sed -n 's/^Value: //p') && [ -n "$path" ]; then
			chosen+=("$name $path")
		fi
	done
	[ -e /usr/include/slurm/pmi2.h ] || missing+=(libpmi2-0-dev)
	pkg-config --exists pmix || missing+=(libpmix-dev)
	command -v mpicc.openmpi mpirun.openmpi >/dev/null || missing+=(openmpi-bin libopenmpi-dev)
	[ "${#missing[@]}" -eq 0 ] || install "${missing[@]}"
	for choice in "${chosen[@]}"; do
		as_root update-alternatives --quiet --set "${choice% *}" "${choice#* }"
	done
	;;
postgres)
	if ! compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; then
		install postgresql-common
		# Otherwise the package would set up a server, and start it with the machine.
		as_root sed -ri 's/^#?(create_main_cluster) .*/\1 = false/' /etc/postgresql-common/createcluster.conf
		install postgresql
	fi
	;;
munge)
	if [ ! -x /usr/sbin/munged ]; then
		install munge
		[ ! -d /run/systemd/system ] || as_root systemctl disable --now munge
	fi
	;;
slurm)
	shift
	as_root "$(dirname "$0")/slurm.sh" "$@"
	;;
*)
	cannot "usage: debian.sh [machine | criu [FOLDER] | programs | mpi | postgres | munge | slurm [FOLDER]]"
	;;
esac
