package spec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Words for weeks without a gap and without hours.
const (
	Always = "always"
	Never  = "never"
)

// maxWeekBytes and maxWeekHours bound what ParseWeek reads.
const (
	maxWeekBytes = 512
	maxWeekHours = 128
)

const (
	minutesPerDay  = 24 * 60
	minutesPerWeek = 7 * minutesPerDay
)

var weekDays = []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}

// Week is hours of the week, by a clock on the wall.
type Week struct {
	hours []weekHours // ascending, apart from each other; the last may reach into the next week
}

// weekHours are minutes from Monday 00:00 on; to is not among them.
type weekHours struct{ from, to int }

// ParseWeek reads hours of the week: "Mon-Fri 18:00-08:00; Sat-Sun". Days without hours
// count whole, hours without days on every day. Hours that end no later than they begin
// end on the next day. "always" and "never" are weeks too.
func ParseWeek(text string) (Week, error) {
	word := strings.ToLower(strings.Join(strings.Fields(text), " "))
	switch {
	case len(text) > maxWeekBytes:
		return Week{}, fmt.Errorf("invalid hours: they are longer than %d bytes", maxWeekBytes)
	case word == Always:
		return Week{hours: []weekHours{{0, minutesPerWeek}}}, nil
	case word == Never:
		return Week{}, nil
	}
	var all []weekHours
	for _, part := range strings.Split(word, ";") {
		hours, err := weekPart(strings.TrimSpace(part))
		if err != nil {
			return Week{}, fmt.Errorf("invalid hours %q: %w: type them as in \"Mon-Fri 18:00-08:00; Sat-Sun\", or always, or never", shorten(text), err)
		}
		if all = append(all, hours...); len(all) > maxWeekHours {
			return Week{}, fmt.Errorf("invalid hours: more than %d of them: join some", maxWeekHours)
		}
	}
	return Week{hours: joinedHours(all)}, nil
}

// weekPart reads days with their hours.
func weekPart(text string) ([]weekHours, error) {
	days, times, found := strings.Cut(text, " ")
	switch {
	case text == "":
		return nil, errors.New("there is nothing between two semicolons, or at an end")
	case !found && text[0] >= '0' && text[0] <= '9':
		days, times = "mon-sun", text
	}
	begins, err := weekDaysOf(days)
	if err != nil {
		return nil, err
	}
	var hours []weekHours
	if times == "" {
		times = "00:00-24:00"
	}
	for _, one := range strings.Split(strings.ReplaceAll(times, " ", ""), ",") {
		first, last, ranged := strings.Cut(one, "-")
		from, err := wallMinute(first)
		if err != nil {
			return nil, err
		}
		to, err := wallMinute(last)
		switch {
		case !ranged:
			return nil, fmt.Errorf("%q has no end", shorten(one))
		case err != nil:
			return nil, err
		case from == to || from == minutesPerDay:
			return nil, fmt.Errorf("%q is empty; a whole day is 00:00-24:00", shorten(one))
		case to < from:
			to += minutesPerDay
		}
		for _, day := range begins {
			hours = append(hours, weekHours{day*minutesPerDay + from, day*minutesPerDay + to})
		}
	}
	return hours, nil
}

// weekDaysOf are the days of a list such as mon-wed,fri; Monday is 0. A range may reach
// over Sunday.
func weekDaysOf(text string) ([]int, error) {
	var days []int
	for _, one := range strings.Split(text, ",") {
		first, last, ranged := strings.Cut(one, "-")
		from, err := weekDay(first)
		if err != nil {
			return nil, err
		}
		to := from
		if ranged {
			if to, err = weekDay(last); err != nil {
				return nil, err
			}
		}
		for day := from; ; day = (day + 1) % 7 {
			if !slices.Contains(days, day) {
				days = append(days, day)
			}
			if day == to {
				break
			}
		}
	}
	return days, nil
}

// weekDay reads the name of a day, or at least three letters of it.
func weekDay(text string) (int, error) {
	if len(text) >= 3 {
		if day := slices.IndexFunc(weekDays, func(name string) bool { return strings.HasPrefix(name, text) }); day >= 0 {
			return day, nil
		}
	}
	return 0, fmt.Errorf("%q is no day of the week", shorten(text))
}

// wallMinute reads HH:MM; 24:00 is the end of the day.
func wallMinute(text string) (int, error) {
	hour, minute, found := strings.Cut(text, ":")
	h, errH := strconv.ParseUint(hour, 10, 8)
	m, errM := strconv.ParseUint(minute, 10, 8)
	if !found || errH != nil || errM != nil || len(hour) > 2 || len(minute) != 2 || m > 59 || h*60+m > minutesPerDay {
		return 0, fmt.Errorf("%q is no time of the day", shorten(text))
	}
	return int(h*60 + m), nil
}

// joinedHours are hours in order, those that touch as one. What reaches over the end of the
// week and touches its beginning takes that in.
func joinedHours(hours []weekHours) []weekHours {
	var week []weekHours
	for _, h := range hours {
		if h.to > minutesPerWeek { // its end lies at the beginning of the week
			week = append(week, weekHours{0, h.to - minutesPerWeek})
			h.to = minutesPerWeek
		}
		week = append(week, h)
	}
	slices.SortFunc(week, func(a, b weekHours) int { return cmp.Or(a.from-b.from, a.to-b.to) })
	var out []weekHours
	for _, h := range week {
		if n := len(out); n > 0 && h.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, h.to)
			continue
		}
		out = append(out, h)
	}
	if n := len(out); n > 1 && out[0].from == 0 && out[n-1].to == minutesPerWeek {
		out[n-1].to += out[0].to
		out = out[1:]
	}
	return out
}

// IsAlways reports whether no minute of the week is missing.
func (w Week) IsAlways() bool {
	return len(w.hours) == 1 && w.hours[0].to-w.hours[0].from == minutesPerWeek
}

// IsNever reports whether there are no hours.
func (w Week) IsNever() bool { return len(w.hours) == 0 }

// At reports whether a moment is in these hours where the clock on the wall shows the time
// of a zone, and when that changes next; zero = never. Where the clock is set back, hours
// begin the second time that it shows when, and end the first time; where it is set
// forward over their begin or end, that is then. Hours that this leaves without length are
// left out.
func (w Week) At(moment time.Time, zone *time.Location) (open bool, changes time.Time) {
	if w.IsAlways() || w.IsNever() {
		return w.IsAlways(), time.Time{}
	}
	local := moment.In(zone)
	year, month, day := local.Date()
	monday := day - (int(local.Weekday())+6)%7
	end := time.Time{} // of the hours that the moment is in, as far as known
	for week := -1; week <= 2; week++ {
		for _, h := range w.hours {
			from := wallMoment(year, month, monday+7*week, h.from, zone, true)
			to := wallMoment(year, month, monday+7*week, h.to, zone, false)
			switch {
			case !from.Before(to) || !moment.Before(to):
			case open && !from.After(end): // clocks that are set can make hours touch
				end = latest(end, to)
			case open:
				return true, end
			case moment.Before(from):
				return false, from
			default:
				open, end = true, to
			}
		}
	}
	return open, end
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// wallMoment is when the clock of a zone shows some minute after the beginning of a day.
// Of two such moments it is the second if late, and else the first; if there is none, the
// one at which the clock is set forward.
func wallMoment(year int, month time.Month, day, minute int, zone *time.Location, late bool) time.Time {
	wall := time.Date(year, month, day, 0, minute, 0, 0, time.UTC)
	_, before := wall.Add(-24 * time.Hour).In(zone).Zone()
	_, after := wall.Add(24 * time.Hour).In(zone).Zone()
	var found []time.Time
	for _, offset := range []int{before, after} {
		at := wall.Add(-time.Duration(offset) * time.Second).In(zone)
		if _, there := at.Zone(); there == offset {
			found = append(found, at)
		}
	}
	switch {
	case len(found) == 0:
		_, set := wall.Add(-time.Duration(after) * time.Second).In(zone).ZoneBounds()
		return set
	case late:
		return found[len(found)-1]
	}
	return found[0]
}
