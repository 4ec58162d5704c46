package container

import (
	"fmt"
	"strings"
	"testing"
)

// A script that counts goes on counting in another container, under another
// id and control group, where it stood.
func TestMoveCounter(t *testing.T) {
	b := newBed(t)
	s := b.start()
	s.must(order{Do: "start", Script: "#!/bin/bash\nfor i in $(seq 1 200); do echo $i; sleep 0.02; done\nexit 7\n"})
	eventually(t, "it counts", func() bool { return strings.Contains(b.read(), "\n10\n") })
	s = s.move()
	r := s.must(order{Do: "wait"})
	if r.Code != 7 {
		t.Errorf("it ended with %d, signal %d", r.Code, r.Signal)
	}
	var want strings.Builder
	for i := range 200 {
		fmt.Fprintln(&want, i+1)
	}
	if b.read() != want.String() {
		t.Errorf("it printed %q", b.read())
	}
}
