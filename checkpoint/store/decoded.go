package store

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// decodedLasts is for how long a manifest is kept in memory: a job that moves stands while
// its image's is read, first for the node that is asked, and then for the restore.
var decodedLasts = 10 * time.Second // a variable for tests

// decoded is the manifest that was decoded last, for a while. The manifest of a large image
// takes longer to decode than to read.
type decoded struct {
	mu     sync.Mutex
	digest checkpoint.Digest
	packed []byte // as it was stored; nil = none is kept
	m      *checkpoint.Manifest
	timer  *time.Timer
}

// of answers the manifest of an image if what is stored of it are the very bytes of which
// it was made and compared with the digest; otherwise nil. Nobody changes what
// its parts consist of.
func (d *decoded) of(digest checkpoint.Digest, packed []byte) *checkpoint.Manifest {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.packed == nil || d.digest != digest || !bytes.Equal(d.packed, packed) {
		return nil
	}
	return copyOf(d.m)
}

func (d *decoded) keep(digest checkpoint.Digest, packed []byte, m *checkpoint.Manifest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	d.digest, d.packed, d.m = digest, packed, copyOf(m)
	d.timer = time.AfterFunc(decodedLasts, d.forget)
}

// copyOf is a manifest whose parts may be changed.
func copyOf(m *checkpoint.Manifest) *checkpoint.Manifest {
	c := *m
	c.Parts = slices.Clone(m.Parts)
	return &c
}

func (d *decoded) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.packed, d.m = nil, nil
}
