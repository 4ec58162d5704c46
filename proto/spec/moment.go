package spec

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseMoment reads a time as sbatch's --begin and --deadline do: "16:00",
// "4:30PM", "noon", "tomorrow", "now+1hour", "2010-01-20T12:34:00", "0120",
// "01/20/10-12:34", and a day and a time of day together. now is the present
// time, and its location the zone in which the words are meant.
//
// A time of day that is past means tomorrow's; a day without a year that is
// past means next year's; a day without a time of day begins at midnight. A
// full date may be past: what to make of that is the caller's.
func ParseMoment(s string, now time.Time) (time.Time, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	if len(text) > maxMomentBytes {
		return time.Time{}, errMoment(s)
	}
	if rest, relative := strings.CutPrefix(text, "now"); relative {
		return addToNow(rest, s, now)
	}
	m := moment{now: now}
	for _, word := range momentWords(text) {
		if !m.word(word) {
			return time.Time{}, errMoment(s)
		}
	}
	when, ok := m.time()
	if !ok {
		return time.Time{}, errMoment(s)
	}
	return when, nil
}

// maxMomentBytes is longer than any time that makes sense.
const maxMomentBytes = 64

// Years that are taken for ones: Unix time begins in the first.
const (
	firstYear = 1970
	lastYear  = 9999
)

func errMoment(s string) error {
	return fmt.Errorf("invalid time %q: type a time of day (16:00, 4:30PM, noon, midnight, teatime, fika), a day (today, tomorrow, 2030-01-20, 01/20/30, 0120), both (2030-01-20T16:00), or now+COUNT followed by seconds, minutes, hours, days or weeks", shorten(s))
}

// timeUnits are those of "now+1hour"; any beginning of one, in the plural too,
// will do.
var timeUnits = []struct {
	name    string
	seconds uint64
}{{"seconds", 1}, {"minutes", 60}, {"hours", 3600}, {"days", 86400}, {"weeks", 7 * 86400}}

// addToNow reads what follows "now": "", "+60", "+1hour", "-5min", with spaces
// anywhere.
func addToNow(rest, whole string, now time.Time) (time.Time, error) {
	rest = strings.ReplaceAll(rest, " ", "")
	if rest == "" {
		return now, nil
	}
	sign := int64(1)
	switch rest[0] {
	case '+':
	case '-':
		sign = -1
	default:
		return time.Time{}, errMoment(whole)
	}
	digits := 1
	for digits < len(rest) && isDigit(rest[digits]) {
		digits++
	}
	count, err := strconv.ParseUint(rest[1:digits], 10, 32)
	if err != nil {
		return time.Time{}, errMoment(whole)
	}
	seconds, known := uint64(1), rest[digits:] == ""
	for _, unit := range timeUnits {
		if word := rest[digits:]; word != "" && strings.HasPrefix(unit.name, word) {
			seconds, known = unit.seconds, true
			break
		}
	}
	if !known {
		return time.Time{}, errMoment(whole)
	}
	when := now.Unix() + sign*int64(count*seconds)
	moment := time.Unix(when, int64(now.Nanosecond())).In(now.Location())
	if moment.Year() < firstYear || moment.Year() > lastYear {
		return time.Time{}, errMoment(whole)
	}
	return moment, nil
}

// momentWords splits a time into words: a day and a time of day, joined by a
// space, a comma, a T or, behind a day with slashes or dots, a dash; AM and PM
// are words too.
func momentWords(text string) []string {
	var words []string
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }) {
		if day, clock, joined := strings.Cut(word, "-"); joined && strings.ContainsAny(day, "/.") {
			words, word = append(words, day), clock
		}
		if at := strings.IndexByte(word, 't'); at > 0 && isDigit(word[at-1]) {
			words, word = append(words, word[:at]), word[at+1:]
		}
		if n := len(word) - 2; n > 0 && (word[n:] == "am" || word[n:] == "pm") {
			words, word = append(words, word[:n]), word[n:]
		}
		words = append(words, word)
	}
	return words
}

// moment is what the words have said so far.
type moment struct {
	now                  time.Time
	hasDay, hasYear      bool
	year, month, day     int
	hasClock, hasHalf    bool
	hour, minute, second int
}

// timesOfDay are the words for them.
var timesOfDay = map[string]int{"midnight": 0, "elevenses": 11, "noon": 12, "fika": 15, "teatime": 16}

// word takes one more word, and reports whether it makes sense.
func (m *moment) word(word string) bool {
	switch word {
	case "":
		return false
	case "today", "tomorrow":
		day := m.now
		if word == "tomorrow" {
			day = time.Date(day.Year(), day.Month(), day.Day()+1, 0, 0, 0, 0, day.Location())
		}
		return m.setDay(day.Year(), int(day.Month()), day.Day(), true)
	case "am", "pm":
		return m.setHalf(word == "pm")
	}
	if hour, known := timesOfDay[word]; known {
		return m.setClock(hour, 0, 0) && m.noHalf()
	}
	switch {
	case strings.Contains(word, ":"):
		fields, ok := numbers(word, ":", 2)
		if !ok || len(fields) < 2 || len(fields) > 3 {
			return false
		}
		return m.setClock(fields[0], fields[1], append(fields, 0)[2])
	case strings.Contains(word, "-"):
		fields, ok := numbers(word, "-", 4)
		return ok && len(fields) == 3 && m.setDay(fields[0], fields[1], fields[2], true)
	case strings.ContainsAny(word, "/."):
		fields, ok := numbers(strings.ReplaceAll(word, ".", "/"), "/", 4)
		if !ok || len(fields) < 2 || len(fields) > 3 {
			return false
		}
		return m.setDay(fullYear(append(fields, 0)[2]), fields[0], fields[1], len(fields) == 3)
	}
	return m.bareDigits(word)
}

// bareDigits reads MMDD, MMDDYY, and the hour of "4PM".
func (m *moment) bareDigits(word string) bool {
	n, err := strconv.Atoi(word)
	switch {
	case err != nil || !allDigits(word):
		return false
	case len(word) == 4:
		return m.setDay(0, n/100, n%100, false)
	case len(word) == 6:
		return m.setDay(fullYear(n%100), n/10000, n/100%100, true)
	case len(word) <= 2:
		m.hasHalf = true // and AM or PM must follow, see time
		return m.setClock(n, -1, 0)
	}
	return false
}

// numbers reads fields of at most so many digits.
func numbers(text, separator string, digits int) ([]int, bool) {
	var fields []int
	for field := range strings.SplitSeq(text, separator) {
		n, err := strconv.Atoi(field)
		if err != nil || !allDigits(field) || len(field) > digits {
			return nil, false
		}
		fields = append(fields, n)
	}
	return fields, true
}

// fullYear is the year of two digits.
func fullYear(year int) int {
	if year < 100 {
		return 2000 + year
	}
	return year
}

func (m *moment) setDay(year, month, day int, hasYear bool) bool {
	if m.hasDay || month < 1 || month > 12 || day < 1 || day > 31 || hasYear && (year < firstYear || year > lastYear) {
		return false
	}
	m.hasDay, m.hasYear, m.year, m.month, m.day = true, hasYear, year, month, day
	return true
}

func (m *moment) setClock(hour, minute, second int) bool {
	if m.hasClock || hour > 23 || minute > 59 || second > 59 {
		return false
	}
	m.hasClock, m.hour, m.minute, m.second = true, hour, minute, second
	return true
}

// noHalf keeps AM and PM from following a word.
func (m *moment) noHalf() bool {
	m.hasHalf = true
	return true
}

// setHalf reads AM or PM behind a time of day.
func (m *moment) setHalf(afternoon bool) bool {
	onlyHour := m.minute < 0
	if !m.hasClock || m.hasHalf && !onlyHour || m.hour < 1 || m.hour > 12 {
		return false
	}
	m.minute = max(m.minute, 0)
	m.hour %= 12
	if afternoon {
		m.hour += 12
	}
	m.hasHalf = true
	return true
}

// time is the moment that was said.
func (m *moment) time() (time.Time, bool) {
	if !m.hasDay && !m.hasClock || m.minute < 0 {
		return time.Time{}, false
	}
	zone := m.now.Location()
	if !m.hasDay {
		when := time.Date(m.now.Year(), m.now.Month(), m.now.Day(), m.hour, m.minute, m.second, 0, zone)
		if when.Before(m.now) {
			when = time.Date(m.now.Year(), m.now.Month(), m.now.Day()+1, m.hour, m.minute, m.second, 0, zone)
		}
		return when, true
	}
	year := m.year
	if !m.hasYear {
		year = m.now.Year()
		if time.Date(year, time.Month(m.month), m.day, m.hour, m.minute, m.second, 0, zone).Before(m.now) {
			year++
		}
	}
	// A day that the month does not have would be one of the next month.
	if noon := time.Date(year, time.Month(m.month), m.day, 12, 0, 0, 0, time.UTC); noon.Day() != m.day {
		return time.Time{}, false
	}
	return time.Date(year, time.Month(m.month), m.day, m.hour, m.minute, m.second, 0, zone), true
}
