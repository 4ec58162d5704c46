// Command shares shows that use converges to the shares: two labs of unequal
// shares submit 500 jobs each to one cluster, one of them half a day before the
// other. The state machine and the scheduler are the real ones, in virtual
// time; a seed replays exactly. It takes about a second, and writes a picture.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	seed := flag.Uint64("seed", 1, "of the jobs' sizes and lengths")
	out := flag.String("o", "fairshare.svg", "the picture")
	weight := flag.Uint("weight", 1000, "of fair share; 0 = jobs go in the order of their numbers")
	flag.Parse()
	if err := show(*seed, uint32(*weight), *out); err != nil {
		fmt.Fprintln(os.Stderr, "shares:", err)
		os.Exit(1)
	}
}

// show runs the labs, prints how they stood every 12 hours and writes the
// picture.
func show(seed uint64, weight uint32, path string) error {
	samples, err := run(seed, weight)
	if err != nil {
		return err
	}
	fmt.Printf("%6s  %s  %s\n", "HOUR", "GPUS IN USE", "PART OF THE USAGE")
	for i := range samples {
		if s := &samples[i]; s.atMS%(12*hour) == 0 {
			fmt.Printf("%6d  %5d %5d  %7.1f%% %7.1f%%\n", s.atMS/hour, s.gpus[0], s.gpus[1], 100*s.part(0), 100*s.part(1))
		}
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := draw(file, samples); err != nil {
		_ = file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	fmt.Println(path)
	return nil
}
