package roots

import (
	"errors"
	"time"
)

// A node says that an image is in its cache, and some time later a job starts with it. In
// between nothing uses its layers, so what comes then could take their room, and the job
// would hold its nodes while the image comes again. So the image has a lease from that word
// on: others wait for the room until it ends. It is in the records of the layers, and
// outlives this process.

const (
	// leaseLasts is longer than controllers rely on such a word: ten minutes.
	leaseLasts = 11 * time.Minute
	// mostLeased is the part of the cache that leases may take: others need room too.
	mostLeased = 2
)

// Lease has an image that is in the cache stay there for some minutes after it is closed.
func (c *Cache) Lease(root *Root) error { return c.lease(root, time.Now().Add(leaseLasts)) }

func (c *Cache) lease(root *Root, until time.Time) error {
	var failures []error
	for _, held := range root.held {
		failures = append(failures, c.change(held.hex, func(r *record) { r.Until = max(r.Until, until.UnixMilli()) }))
	}
	return errors.Join(failures...)
}

// isLeased reports whether a layer has a lease. One that is longer than any that is given was
// written before the clock was set back.
func (l *Layer) isLeased(now time.Time) bool {
	return l.until > now.UnixMilli() && l.until <= now.Add(leaseLasts).UnixMilli()
}

// leaseEnd orders layers by when their leases end, those without one first.
func (l *Layer) leaseEnd(now time.Time) int64 {
	if l.isLeased(now) {
		return l.until
	}
	return 0
}
