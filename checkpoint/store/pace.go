package store

import (
	"sync/atomic"
	"time"
)

// unhurried is how many bytes of an image per second are packed without any
// hurry. Compression of what compresses badly takes several times as long as
// hashing it and writing it to a fast disk; a job that moves waits for it.
const unhurried = 1 << 30

// pace says whether a Put is slow because of compression: it is behind, and
// the disk is not the reason. A slow disk has all time in the world for it.
type pace struct {
	begun  time.Time
	bytes  atomic.Int64 // of the image that are through
	onDisk atomic.Int64 // ns that writing took
}

func (p *pace) wrote(bytes int64, took time.Duration) {
	p.bytes.Add(bytes)
	p.onDisk.Add(int64(took))
}

func (p *pace) hurry(now time.Time) bool {
	passed := now.Sub(p.begun)
	due := time.Duration(float64(p.bytes.Load()) / unhurried * float64(time.Second))
	return passed > due+50*time.Millisecond && 2*time.Duration(p.onDisk.Load()) < passed
}
