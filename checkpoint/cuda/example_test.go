package cuda_test

import (
	"context"
	"log"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
)

// A tree of processes gives its GPUs up for a while.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	gpus := cuda.NewHelper(cuda.Options{Command: []string{"/usr/sbin/gnoded", cuda.Word}})
	defer gpus.Close()

	parked, err := gpus.Park(ctx, []int{4711, 4712})
	if err != nil {
		log.Fatal(err) // all run as before, or it says which do not
	}
	// Freeze them, save them, use the GPUs for something else; then thaw them.
	if err := gpus.Unpark(ctx, parked, nil); err != nil {
		log.Fatal(err)
	}
}
