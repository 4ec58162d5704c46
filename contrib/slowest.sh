#!/bin/sh
# slowest.sh FILE...: prints the ten slowest packages and the ten slowest stories of
# what `go test -json` wrote to the files. Packages run beside one another, so
# their times add up to more than the whole took.
set -eu

# An event without a test is the end of its package.
packages() {
	for file in "$@"; do
		sed -n '/"Test":/d; s/.*"Action":"pass","Package":"[^"]*gleaner-hpc\/gleaner\/\([^"]*\)","Elapsed":\([0-9.]*\).*/\1 \2/p' "$file" |
			sed "s/$/ $(basename "$file" .json)/"
	done
}
stories() {
	sed -n 's/.*"Action":"pass".*"Test":"TestScenarios\/\([^"]*\)","Elapsed":\([0-9.]*\).*/\1 \2 story/p' "$@"
}
table() { sort -rn -k2 | head -10 | awk '{ printf "  %7.1f s  %-9s %s\n", $2, $3, $1 }'; }

echo "the slowest packages and stories:"
packages "$@" | table
stories "$@" | table
