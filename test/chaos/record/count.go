package main

import (
	"errors"
	"os"
	"time"

	"github.com/gleaner-hpc/gleaner/test/chaos/history"
)

// counting counts its signs of life, in its memory only, until there are as many as
// the time has, or until it is told to end, which it answers with true.
func (r *record) counting(o options, told <-chan os.Signal) (bool, error) {
	for n := 1; n <= int(o.length/pulse); n++ {
		select {
		case <-told:
			at, err := r.when()
			err = errors.Join(err, r.write(history.Term(at)))
			if !o.deaf {
				return true, err
			}
		case <-time.After(pulse):
		}
		at, err := r.when()
		if err := errors.Join(err, r.write(history.Count(at, n))); err != nil {
			return false, err
		}
	}
	_, err := r.when()
	return false, err
}

// when is what time it is, in the run that the record has come to: it begins another
// if the process has resumed in one. It may be stopped at any point of this, and resume
// somewhere else, hours later.
func (r *record) when() (at int64, err error) {
	for {
		before, err := epochNow()
		at = now()
		after, afterErr := epochNow()
		if err := errors.Join(err, afterErr); err != nil {
			return at, err
		}
		if before != after {
			continue
		}
		if after != r.epoch {
			epoch, opened, names, err := devicesNow()
			if err != nil {
				return at, err
			}
			if epoch != after {
				continue
			}
			r.epoch = after
			return at, r.write(history.Moved(at, after, opened, names))
		}
		return at, nil
	}
}
