#!/bin/sh
# Prints the manual page of a daemon, which is its own help.
#
#   man8.sh PROGRAM
set -e

name=$(basename "$1")
"$1" --help | awk -v name="$name" '
	function plain(text) { gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text); if (text ~ /^[.\x27]/) text = "\\&" text; return text }
	function begin(title) { if (open) print ".fi"; print ".SH " title; open = 0 }
	NR == 1 { print ".TH " toupper(name) " 8 \"\" Gleaner \"System administration\""; print ".nh" }
	/^[A-Z ]+:$/ { sub(/:$/, ""); section = $0; if (section != "VERSION") begin(section); next }
	section == "VERSION" { next }
	section == "NAME" { if (NF) { sub(/^ +/, ""); print plain($0) } next }
	{ if (!open) { print ".nf"; open = 1 } sub(/^   /, ""); print plain($0) }
	END { if (open) print ".fi"; print ".SH \"SEE ALSO\""; print ".BR gleaner (1), .BR gcontrol (1)" }
' | sed 's/^\.BR gleaner (1), \.BR gcontrol (1)$/.BR gleaner (1),\n.BR gcontrol (1)/'
