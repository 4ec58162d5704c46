package store

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// Take implements Store.
func (d *Directory) Take(ctx context.Context, manifest *checkpoint.Manifest, directory string) (Receipt, error) {
	return d.putOrTake(ctx, manifest, directory, true)
}

// giveEvery is how much of a part is read before it is given back.
const giveEvery = 8 << 20

// giveBack makes a hole of what was read. A file system without holes keeps it
// until somebody removes the file.
func giveBack(file *os.File, from, to int64) {
	_ = unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
}
