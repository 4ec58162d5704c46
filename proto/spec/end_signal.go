package spec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	// endSignalBeforeS is how long before the time limit the signal is sent
	// when no time is given, and maxEndSignalS the longest that may be given
	// (sbatch(1), --signal).
	endSignalBeforeS = 60
	maxEndSignalS    = 65535
)

// EndSignal is --signal: what a job is sent before its end, so that it can save
// its work (sbatch(1)).
type EndSignal struct {
	Signal uint32
	// BeforeS is how many seconds before the time limit; 0 = only when it is
	// preempted.
	BeforeS uint32
	// Batch: to the batch script's own process alone, not to the steps.
	Batch bool
	// Reservation: the job may overlap a reservation that begins later.
	Reservation bool
}

// ParseEndSignal reads "[{R|B}:]signal[@seconds]", the signal by its name or
// number.
func ParseEndSignal(text string) (EndSignal, error) {
	var s EndSignal
	letters, rest, has := strings.Cut(text, ":")
	if !has {
		letters, rest = "", text
	} else if letters == "" {
		return s, fmt.Errorf("invalid signal %q: there is nothing before the colon: type B: for the batch script alone, or leave the colon out", shorten(text))
	}
	for _, letter := range letters {
		switch letter {
		case 'B', 'b':
			s.Batch = true
		case 'R', 'r':
			s.Reservation = true
		default:
			return s, fmt.Errorf("invalid signal %q: only B (the batch script alone) and R (it may overlap a reservation) may come before the colon", shorten(text))
		}
	}
	name, before, timed := strings.Cut(rest, "@")
	s.BeforeS = endSignalBeforeS
	if timed {
		seconds, err := strconv.ParseUint(before, 10, 32)
		if err != nil || seconds > maxEndSignalS {
			return s, fmt.Errorf("invalid signal %q: the @ is followed by seconds, 0 to %d", shorten(text), maxEndSignalS)
		}
		s.BeforeS = uint32(seconds)
	}
	if name == "" {
		return s, errors.New("invalid signal: it has no name: type one such as USR1, or B:USR1@120")
	}
	var err error
	s.Signal, err = ParseSignal(name)
	return s, err
}

// String is the signal as it would be typed, with all that was left out:
// "B:USR1@60".
func (s EndSignal) String() string {
	var out strings.Builder
	if s.Reservation {
		out.WriteByte('R')
	}
	if s.Batch {
		out.WriteByte('B')
	}
	if out.Len() > 0 {
		out.WriteByte(':')
	}
	fmt.Fprintf(&out, "%s@%d", SignalName(s.Signal), s.BeforeS)
	return out.String()
}
