package main

import (
	"errors"
	"fmt"
	"io"
	"math"
)

// lab is one of the two.
type lab struct {
	name   string
	shares uint32
}

// sample is the use at one time.
type sample struct {
	atMS    int64
	gpus    [2]int     // of each lab, in use
	waiting [2]int     // jobs
	used    [2]float64 // billing-seconds, as gshare shows them
}

// part is a lab's part of what both have used.
func (s *sample) part(lab int) float64 { return partOf(s.used, lab) }

func partOf(amounts [2]float64, lab int) float64 {
	if amounts[0]+amounts[1] == 0 {
		return 0
	}
	return amounts[lab] / (amounts[0] + amounts[1])
}

// show is how two labs came to their shares, wherever that was.
type show struct {
	labs      [2]lab
	jobs      [2]int // that each submitted
	gpus      int    // of the cluster
	halfLifeS int64
	samples   []sample // ascending
	// The axis of time: its unit and how many of them lie between two marks.
	unit   string
	unitMS int64
	every  int64
	source string // where the samples are from
}

// share is a lab's part of all shares.
func (s *show) share(lab int) float64 {
	return partOf([2]float64{float64(s.labs[0].shares), float64(s.labs[1].shares)}, lab)
}

// contended is the part of the show in which both labs have jobs waiting, so
// that nothing but the shares decides whose start: its first and last sample.
func (s *show) contended() (first, last int, err error) {
	first, last = -1, -1
	for i := range s.samples {
		if s.samples[i].waiting[0] > 0 && s.samples[i].waiting[1] > 0 {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if last-first < 8 {
		return 0, 0, errors.New("both labs had jobs waiting for too short a time to say anything: submit more jobs, or longer ones")
	}
	return first, last, nil
}

// quarters are the samples at the quarter marks of the contended part.
func (s *show) quarters() (marks [4]int, err error) {
	first, last, err := s.contended()
	for i := range marks {
		marks[i] = first + (last-first)*(i+1)/len(marks)
	}
	return marks, err
}

// gpuTime is a lab's part of the GPU time that both had between two samples.
func (s *show) gpuTime(from, to, lab int) float64 {
	var had [2]float64
	for i := from; i < to; i++ {
		for l := range had {
			had[l] += float64(s.samples[i].gpus[l]) * float64(s.samples[i+1].atMS-s.samples[i].atMS)
		}
	}
	return partOf(had, lab)
}

// farthest is how far a lab is from its share at most, from half of the
// contended part on: by what gshare tells of its usage, and by the GPU time that
// its jobs had since then.
func (s *show) farthest() (usage, gpuTime float64, err error) {
	marks, err := s.quarters()
	if err != nil {
		return 0, 0, err
	}
	for i := marks[1]; i <= marks[3]; i++ {
		usage = max(usage, math.Abs(s.samples[i].part(0)-s.share(0)))
	}
	return usage, math.Abs(s.gpuTime(marks[1], marks[3], 0) - s.share(0)), nil
}

// report prints the use of the labs at the quarter marks. The error says that
// one was farther from its share than the band, a fraction.
func (s *show) report(w io.Writer, band float64) error {
	marks, err := s.quarters()
	if err != nil {
		return err
	}
	first, last, _ := s.contended()
	fmt.Fprintf(w, "Both labs have jobs waiting from %s to %s. Part of the usage (gshare) at the quarter\nmarks of that, and of the GPU time of jobs (gqueue) in its second half:\n\n", s.clock(first), s.clock(last))
	fmt.Fprintf(w, "%-12s %6s %7s %7s %7s %7s %7s %9s\n", "LAB", "SHARES", "1/4", "1/2", "3/4", "END", "TARGET", "GPU TIME")
	for l := range s.labs {
		fmt.Fprintf(w, "%-12s %6d", s.labs[l].name, s.labs[l].shares)
		for _, mark := range marks {
			fmt.Fprintf(w, " %6.1f%%", 100*s.samples[mark].part(l))
		}
		fmt.Fprintf(w, " %6.1f%% %8.1f%%\n", 100*s.share(l), 100*s.gpuTime(marks[1], marks[3], l))
	}
	usage, gpuTime, err := s.farthest()
	if err != nil {
		return err
	}
	verdict := fmt.Sprintf("from half of it on the usage is at most %.1f points from the shares, the GPU time %.1f", 100*usage, 100*gpuTime)
	if max(usage, gpuTime) > band {
		return fmt.Errorf("%s: more than %.0f", verdict, 100*band)
	}
	_, err = fmt.Fprintf(w, "\n%s: within %.0f\n", verdict, 100*band)
	return err
}

// clock is the time of a sample on the axis.
func (s *show) clock(sample int) string {
	return fmt.Sprintf("%g %s", math.Round(10*float64(s.samples[sample].atMS)/float64(s.unitMS))/10, s.unit)
}
