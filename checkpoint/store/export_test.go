package store

import (
	"path"
	"testing"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// What tests from outside this package use: those of buckets, whose servers import it.

// Sample is a dump that is made up.
type Sample struct{ sample }

// Program answers a sample of about so many pages.
func Program(seed uint64, pages int) Sample { return Sample{program(seed, pages)} }

// Changed answers the sample with some pages of its memory changed.
func (s Sample) Changed() Sample {
	other := sample{}
	for name, data := range s.sample {
		other[name] = append([]byte(nil), data...)
	}
	for at := range 3 * unit {
		other["criu/pages-1.img"][at] ^= 0x55
	}
	return Sample{other}
}

func (s Sample) Write(t *testing.T, job, number uint32) (*checkpoint.Manifest, string) {
	return s.write(t, job, number)
}

func (s Sample) Put(t *testing.T, into Store, job, number uint32) Receipt {
	t.Helper()
	return s.put(t, into, job, number)
}

func (s Sample) Get(t *testing.T, from Reader, image checkpoint.Digest) {
	t.Helper()
	s.get(t, from, image)
}

// Pages answers what the largest part has: bytes that cannot be compressed.
func (s Sample) Pages() []byte { return s.sample["criu/core-1.img"] }

// PutAway does what somebody does who takes a writer for dead, and stops in the middle.
func PutAway(w *Writer) error {
	d := w.d
	return d.disk.Rename(w.making, path.Join(makingName, "other-"+path.Base(w.making)))
}

// Making answers what lies below making/.
func Making(d *Directory) ([]string, error) { return d.disk.Names(makingName) }
