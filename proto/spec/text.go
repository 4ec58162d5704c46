package spec

import "strconv"

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func allDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return s != ""
}

// padded writes n with at least width digits.
func padded(n int64, width int) string {
	text := strconv.FormatInt(n, 10)
	for len(text) < width {
		text = "0" + text
	}
	return text
}

// shorten cuts what an error message quotes, so that a hostile word does not
// fill a terminal or a log.
func shorten(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
