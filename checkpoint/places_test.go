package checkpoint

import (
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCountedAmong: a thread is bound to the CPUs that stand where its own stood.
func TestCountedAmong(t *testing.T) {
	for _, row := range []struct{ all, some, want []int }{
		{[]int{0, 1}, []int{1}, []int{1}},
		{[]int{4, 5, 9}, []int{4, 9}, []int{0, 2}},
		{[]int{4, 5, 9}, []int{3}, nil}, // outside: it was never there
		{nil, []int{1}, nil},
	} {
		if got := countedAmong(row.all, row.some); !slices.Equal(got, row.want) {
			t.Errorf("%v among %v: %v", row.some, row.all, got)
		}
	}
}

// TestTakePlace: a thread takes what its image says as far as its tree has that, and no
// priority that it could not have given itself.
func TestTakePlace(t *testing.T) {
	done := make(chan struct{})
	go func() { // in a thread that ends with it
		defer close(done)
		runtime.LockOSThread()
		me := unix.Gettid()
		all, err := cpusOf(me)
		if err != nil || len(all) == 0 {
			t.Errorf("its CPUs are %v, %v", all, err)
			return
		}
		last := len(all) - 1
		const idle, realTime = ioprioClassIdle << ioprioClassShift, 1 << ioprioClassShift
		for _, row := range []struct {
			place
			cpus []int
			io   int
		}{
			{place{CPUs: []int{last}, IO: idle}, all[last:], idle},
			{place{CPUs: []int{-1, len(all), 9999}}, all[last:], idle}, // none of them is here
			{place{CPUs: []int{0, 9999}, IO: realTime}, all[:1], idle},
		} {
			err := row.take(me, all)
			if got, _ := cpusOf(me); err != nil || !slices.Equal(got, row.cpus) || ioPriority(me) != row.io {
				t.Errorf("%+v: on %v with %x, %v", row.place, got, ioPriority(me), err)
			}
		}
	}()
	<-done
}
