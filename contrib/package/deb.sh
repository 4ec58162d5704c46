#!/usr/bin/env bash
# Makes gleaner-ctld, gleaner-node and gleaner-client from what make has built, with
# dpkg-deb. Needs no root: the files in a package belong to root whoever makes it.
#
#   deb.sh ARCHITECTURE PROGRAMS FOLDER     writes FOLDER/gleaner-*_VERSION_ARCHITECTURE.deb
#
# PROGRAMS has gctld, gnoded, ginit, goci, gstage and gleaner for that architecture, and gpmix
# where the library of PMIx was; bin/ has those that run here. VERSION is Debian's, COMPRESS what dpkg-deb is given.
set -euo pipefail
[ $# -eq 3 ] || { sed -n '2,9s/^# \?//p' "$0" >&2; exit 1; }
architecture=$1 programs=$(realpath "$2") out=$(realpath -m "$3") here=contrib/package
cd "$(dirname "$0")/../.."
command -v dpkg-deb >/dev/null || { echo "make deb: dpkg-deb is missing: apt-get install dpkg" >&2; exit 1; }

# version: "1.2-3-gabc" of git describe is 1.2+3.gabc; without a tag, the time of the commit
# orders what is built.
version() {
	local described
	if described=$(git describe --tags --match 'v[0-9]*' 2>/dev/null); then
		described=${described#v}
		echo "${described//-/+}"
	else
		echo "0~$(TZ=UTC git show -s --format=%cd --date=format-local:%Y%m%d%H%M%S 2>/dev/null || date -u +%Y%m%d%H%M%S)"
	fi
}
VERSION=${VERSION:-$(version)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git show -s --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

case $architecture in
arm64) tools=aarch64-linux-gnu- ;;
*) tools= ;;
esac

umask 022
work=$(mktemp -d "${TMPDIR:-/tmp}/deb.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
all=$work/all
make --no-print-directory -s install DESTDIR="$all" PREFIX=/usr >/dev/null
rm -f "$all/usr/bin/gpmix" # that runs here
pmix=
[ ! -e "$programs/gpmix" ] || pmix=bin/gpmix
for program in sbin/gctld sbin/gnoded sbin/ginit bin/gleaner bin/goci bin/gstage $pmix; do
	install "$programs/$(basename $program)" "$all/usr/$program"
	"${tools}strip" --strip-unneeded "$all/usr/$program" # what a debugger needs; stack traces need none of it
done
rm -r "$all/usr/share/doc"
find "$all/usr/share/man" -type f -exec gzip -9n {} +

install -D -m 644 -t "$all/etc/gleaner" $here/{gctld,gnoded,agent,client}.toml contrib/cluster.toml
install -D -m 644 contrib/logrotate/gleaner "$all/etc/logrotate.d/gleaner-ctld"
install -D -m 755 contrib/setup/criu.sh "$all/usr/share/gleaner/setup/criu.sh"
install -m 644 contrib/setup/unpack.sh "$all/usr/share/gleaner/setup/"

# move PACKAGE PATH...: what of all files belongs to a package.
move() {
	local package=$1 path
	shift
	for path; do
		mkdir -p "$work/$package/$(dirname "$path")"
		mv "$all/$path" "$work/$package/$path"
	done
}
move gleaner-ctld usr/sbin/gctld usr/lib/systemd/system/gctld.service usr/share/man/man8/gctld.8.gz \
	etc/gleaner/gctld.toml etc/gleaner/cluster.toml etc/logrotate.d/gleaner-ctld
move gleaner-node usr/sbin/gnoded usr/sbin/ginit usr/lib/systemd/system/gnoded.service usr/share/man/man8/gnoded.8.gz \
	etc/gleaner/gnoded.toml usr/share/gleaner ${pmix:+usr/$pmix}
move gleaner-client etc/gleaner/agent.toml etc/gleaner/client.toml usr/lib/systemd/system/gleaner-agent.service usr/bin usr/lib/gleaner usr/share/man/man1 usr/share/bash-completion usr/share/zsh usr/share/fish
# Where shells look that are packaged.
move_in() { mkdir -p "$work/$1/$(dirname "$3")" && mv "$work/$1/$2" "$work/$1/$3"; }
move_in gleaner-client usr/share/zsh/site-functions usr/share/zsh/vendor-completions
left=$(find "$all" -not -type d)
[ -z "$left" ] || { echo "make deb: these are in no package:" "$left" >&2; exit 1; }

# libc PACKAGE: the newest version of a symbol of the C library that its programs use; none
# if they are linked statically.
libc() {
	find "$work/$1/usr" -type f -perm -100 -exec "${tools}objdump" -T {} + 2>/dev/null |
		sed -n 's/.*(\?GLIBC_\([0-9.]*\).*/\1/p' | sort -uV | tail -n 1
}

mkdir -p "$out"
for package in gleaner-ctld gleaner-node gleaner-client; do
	root=$work/$package doc=$work/$package/usr/share/doc/$package
	mkdir -p "$root/DEBIAN" "$doc"
	cp $here/copyright "$doc/copyright"
	printf '%s (%s) unstable; urgency=medium\n\n  * Built from the source: see its log.\n\n -- %s  %s\n' "$package" "$VERSION" \
		"$(sed -n 's/^Maintainer: //p' $here/$package/control)" "$(TZ=UTC date -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.gz"
	for script in preinst postinst prerm postrm; do
		[ ! -e $here/$package/$script ] || install -m 755 $here/$package/$script "$root/DEBIAN/"
	done
	[ ! -d "$root/etc" ] || (cd "$root" && find etc -type f | sed 's|^|/|' | sort >DEBIAN/conffiles)
	(cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf "%P\n" | sort | xargs md5sum >DEBIAN/md5sums)
	sed -e "s/@VERSION@/$VERSION/g" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@LIBC@/$(libc $package)/" -e '/^Depends: libc6 (>= )$/d' -e 's/libc6 (>= ), //' \
		-e "/^Architecture:/a Installed-Size: $(du -ks --exclude=DEBIAN "$root" | cut -f 1)" $here/$package/control >"$root/DEBIAN/control"
	dpkg-deb --root-owner-group ${COMPRESS:--Zxz} --build "$root" "$out/${package}_${VERSION}_$architecture.deb" >/dev/null
	echo "$out/${package}_${VERSION}_$architecture.deb"
done
