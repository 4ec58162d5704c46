package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxHostDigits bounds a number inside a host list, so that it fits an int64
// with room for a step past its end.
const maxHostDigits = 18

// ParseHostList expands a host list such as "n[1-3,07],x" into its names, in
// the order written and each once. A name may hold several brackets. It
// returns no names for the empty list, and an error for more than
// MaxHostListNames, found without expanding them.
func ParseHostList(s string) ([]string, error) {
	if len(s) > MaxHostListBytes {
		return nil, fmt.Errorf("host list of %d bytes is too long: at most %d are allowed", len(s), MaxHostListBytes)
	}
	words, err := splitOutsideBrackets(s)
	if err != nil {
		return nil, err
	}
	total := 0
	hosts := make([][]hostPiece, len(words))
	for i, word := range words {
		pieces, count, err := parseHostWord(word)
		if err != nil {
			return nil, err
		}
		if total += count; total > MaxHostListNames {
			return nil, fmt.Errorf("host list %q names more than %d hosts: name fewer", shorten(s), MaxHostListNames)
		}
		hosts[i] = pieces
	}
	if total == 0 {
		return nil, nil
	}
	names := make([]string, 0, total)
	seen := make(map[string]bool, total)
	for _, pieces := range hosts {
		err = expandHostWord("", pieces, func(name string) {
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// splitOutsideBrackets cuts s at commas outside brackets, and drops empty words
// and the spaces around words.
func splitOutsideBrackets(s string) ([]string, error) {
	var words []string
	depth, start := 0, 0
	add := func(end int) {
		if word := strings.TrimSpace(s[start:end]); word != "" {
			words = append(words, word)
		}
		start = end + 1
	}
	for i := range len(s) {
		switch s[i] {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth == 0 {
				add(i)
			}
		}
		if depth < 0 || depth > 1 {
			return nil, fmt.Errorf("list %q has a bracket that does not match: write ranges as n[1-4,7]", shorten(s))
		}
	}
	if depth != 0 {
		return nil, fmt.Errorf("list %q has a bracket that is not closed: write ranges as n[1-4,7]", shorten(s))
	}
	add(len(s))
	return words, nil
}

// hostPiece is a stretch of a host word: literal text, or the ranges of one
// pair of brackets.
type hostPiece struct {
	text   string
	ranges []hostRange
}

// hostRange is first to last, written with at least width digits.
type hostRange struct {
	first, last int64
	width       int
}

// parseHostWord takes "a[1-2]b" apart, and counts the names in it up to just
// over MaxHostListNames.
func parseHostWord(word string) ([]hostPiece, int, error) {
	var pieces []hostPiece
	count := 1
	for rest := word; rest != ""; {
		text, inside, found := strings.Cut(rest, "[")
		for i, letter := range text {
			if !hostByte(text[i]) {
				return nil, 0, fmt.Errorf("host name %q has the character %q: use letters, digits, '-', '_' and '.'", shorten(word), letter)
			}
		}
		if text != "" {
			pieces = append(pieces, hostPiece{text: text})
		}
		if !found {
			break
		}
		inside, rest, _ = strings.Cut(inside, "]")
		ranges, hosts, err := parseHostRanges(inside)
		if err != nil {
			return nil, 0, fmt.Errorf("host list %q: %w", shorten(word), err)
		}
		pieces = append(pieces, hostPiece{ranges: ranges})
		if count *= hosts; count > MaxHostListNames {
			return nil, 0, fmt.Errorf("host list %q names more than %d hosts: name fewer", shorten(word), MaxHostListNames)
		}
	}
	return pieces, count, nil
}

func parseHostRanges(s string) (ranges []hostRange, count int, err error) {
	for part := range strings.SplitSeq(s, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		first, err1 := parseHostNumber(low)
		last, err2 := parseHostNumber(high)
		switch {
		case err1 != nil || err2 != nil:
			return nil, 0, fmt.Errorf("%q is not a number or a range: write numbers such as 1-4 between the brackets", shorten(part))
		case first > last:
			return nil, 0, fmt.Errorf("range %q runs backwards: write %s-%s", shorten(part), high, low)
		case len(high) != len(low) && (high[0] == '0' || low[0] == '0' && low != "0"):
			return nil, 0, fmt.Errorf("range %q has ends of unlike width: write both with the same number of digits", shorten(part))
		case last-first >= MaxHostListNames:
			return nil, 0, fmt.Errorf("range %q names more than %d hosts: name fewer", shorten(part), MaxHostListNames)
		}
		if count += int(last - first + 1); count > MaxHostListNames {
			return nil, 0, fmt.Errorf("it names more than %d hosts: name fewer", MaxHostListNames)
		}
		ranges = append(ranges, hostRange{first: first, last: last, width: len(low)})
	}
	return ranges, count, nil
}

func parseHostNumber(s string) (int64, error) {
	if s == "" || len(s) > maxHostDigits || !allDigits(s) {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(s, 10, 64)
}

// expandHostWord calls yield for each name that the pieces make, the last
// bracket turning fastest.
func expandHostWord(prefix string, pieces []hostPiece, yield func(string)) error {
	if len(prefix) > MaxHostNameBytes {
		return fmt.Errorf("host name %q is longer than %d characters", shorten(prefix), MaxHostNameBytes)
	}
	if len(pieces) == 0 {
		yield(prefix)
		return nil
	}
	if pieces[0].ranges == nil {
		return expandHostWord(prefix+pieces[0].text, pieces[1:], yield)
	}
	for _, r := range pieces[0].ranges {
		for n := r.first; n <= r.last; n++ {
			if err := expandHostWord(prefix+padded(n, r.width), pieces[1:], yield); err != nil {
				return err
			}
		}
	}
	return nil
}

// FormatHostList writes host names as Slurm does, n[1-4,7],x: sorted, each
// once, and compressed on the number they end in. The names must be valid
// ones; ParseHostList reads the result back.
func FormatHostList(names []string) string {
	hosts := make([]numberedHost, 0, len(names))
	for _, name := range names {
		hosts = append(hosts, splitHost(name))
	}
	slices.SortFunc(hosts, compareHosts)
	hosts = slices.Compact(hosts)
	var out strings.Builder
	for len(hosts) > 0 {
		same := 1
		for same < len(hosts) && hosts[0].digits != "" && hosts[same].prefix == hosts[0].prefix {
			same++
		}
		if out.Len() > 0 {
			out.WriteByte(',')
		}
		writeHosts(&out, hosts[:same])
		hosts = hosts[same:]
	}
	return out.String()
}

// numberedHost is a name cut before the digits at its end.
type numberedHost struct {
	prefix string
	digits string // "" when the name does not end in a number
	number int64
}

func splitHost(name string) numberedHost {
	cut := len(name)
	for cut > 0 && cut > len(name)-maxHostDigits && isDigit(name[cut-1]) {
		cut--
	}
	host := numberedHost{prefix: name[:cut], digits: name[cut:]}
	if host.digits != "" {
		host.number, _ = strconv.ParseInt(host.digits, 10, 64) // at most 18 digits always fit
	}
	return host
}

// compareHosts puts the names of one prefix together, and those without a
// number first.
func compareHosts(a, b numberedHost) int {
	if c := strings.Compare(a.prefix, b.prefix); c != 0 {
		return c
	}
	if (a.digits == "") != (b.digits == "") {
		return len(a.digits) - len(b.digits)
	}
	if a.number != b.number {
		if a.number < b.number {
			return -1
		}
		return 1
	}
	return len(a.digits) - len(b.digits)
}

// writeHosts writes hosts of one prefix.
func writeHosts(out *strings.Builder, hosts []numberedHost) {
	out.WriteString(hosts[0].prefix)
	if len(hosts) == 1 {
		out.WriteString(hosts[0].digits)
		return
	}
	out.WriteByte('[')
	for i := 0; i < len(hosts); {
		run := 1
		for i+run < len(hosts) && hosts[i+run].digits == padded(hosts[i].number+int64(run), len(hosts[i].digits)) {
			run++
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(hosts[i].digits)
		// A range's ends have one width when either is padded; "099-100"
		// fulfils that, "09-100" does not and is cut at the change.
		if run > 1 && len(hosts[i+run-1].digits) != len(hosts[i].digits) && hosts[i].digits[0] == '0' && hosts[i].digits != "0" {
			run = widthRun(hosts[i : i+run])
		}
		if run > 1 {
			out.WriteByte('-')
			out.WriteString(hosts[i+run-1].digits)
		}
		i += run
	}
	out.WriteByte(']')
}

// widthRun counts the leading hosts that have as many digits as the first.
func widthRun(hosts []numberedHost) int {
	for i := range hosts {
		if len(hosts[i].digits) != len(hosts[0].digits) {
			return i
		}
	}
	return len(hosts)
}

// ValidHostName reports whether name is one host name, without ranges.
func ValidHostName(name string) bool {
	if name == "" || len(name) > MaxHostNameBytes {
		return false
	}
	for i := range len(name) {
		if !hostByte(name[i]) {
			return false
		}
	}
	return true
}

func hostByte(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-' || c == '_' || c == '.'
}
