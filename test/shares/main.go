// Command shares shows that use converges to the shares: two labs of unequal
// shares submit 500 jobs each to one cluster, one of them some time before the
// other. It prints the use at the quarter marks, compares that with the shares,
// and draws a picture.
//
// With -recorded it reads what a real cluster told while that happened
// (contrib/demo-fairshare.sh). Without, the state machine and the scheduler are
// the real ones and time is virtual: a seed replays exactly, in about a second.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	directory := flag.String("recorded", "", "where a cluster was recorded; \"\" = virtual time")
	seed := flag.Uint64("seed", 1, "of the jobs' sizes and lengths, in virtual time")
	weight := flag.Uint("weight", 1000, "of fair share, in virtual time; 0 = jobs go in the order of their numbers")
	out := flag.String("o", "fairshare.svg", "the picture")
	band := flag.Float64("band", 5, "how many points the labs may be from their shares")
	flag.Parse()
	var s *show
	var err error
	if *directory != "" {
		s, err = recorded(*directory)
	} else {
		s, err = simulated(*seed, uint32(*weight))
	}
	if err == nil {
		err = tell(os.Stdout, s, *out, *band/100)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "shares:", err)
		os.Exit(1)
	}
}

// tell writes the picture, whatever it shows, and then the report.
func tell(w io.Writer, s *show, path string, band float64) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := draw(file, s); err != nil {
		_ = file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	fmt.Fprintf(w, "the picture: %s\n", path)
	return s.report(w, band)
}
