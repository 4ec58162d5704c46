package container

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The clock since boot continues in a job that moves, whatever the new node's says:
// who waits until a moment of it would wait for days otherwise, or not at all.
func TestMoveKeepsTheClock(t *testing.T) {
	needsPython(t)
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		t.Fatal(err)
	}
	// The kernel lets no clock begin below zero: this machine may have started just now.
	for name, uptime := range map[string]time.Duration{"shorter": -min(time.Duration(up.Nano())/2, time.Hour), "longer": 1000 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			s := b.start()
			s.must(order{Do: "start", Script: "#!/usr/bin/python3\nimport time\nwhile True:\n    print(time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)\n    time.sleep(0.1)\n"})
			eventually(t, "it runs", func() bool { return strings.Count(b.read(), "\n") > 2 })
			image, _ := s.save()
			s.must(order{Do: "end"})
			before := strings.Split(strings.TrimSpace(b.read()), "\n")
			b.uptime = uptime
			s = b.start()
			s.must(order{Do: "restore", Image: image})
			eventually(t, "it continues", func() bool { return strings.Count(b.read(), "\n") > len(before)+2 })
			after := strings.Split(b.read(), "\n")
			t.Log(before, after)
			for i := range 2 {
				was, now := clock(before[len(before)-1], i), clock(after[len(before)+1], i)
				if now < was || now > was+60 {
					t.Errorf("clock %d was %f when it was saved, and is %f", i, was, now)
				}
			}
		})
	}
}

func clock(line string, which int) float64 {
	f, err := strconv.ParseFloat(strings.Fields(line)[which], 64)
	if err != nil {
		panic(fmt.Sprint(err))
	}
	return f
}
