package replica

import (
	"io"
	"time"
)

// A snapshot is not urgent, and commands submitted meanwhile are. So the writer
// of a snapshot rests after each piece for as long as the piece took: it takes
// at most half of a core. And it syncs to disk at intervals, or the last sync
// would keep the log's own writes waiting.
const (
	paceBytes = 128 << 10
	syncBytes = 4 << 20
	maxPause  = 50 * time.Millisecond
)

// pacedWriter writes a snapshot of a peer that serves.
type pacedWriter struct {
	out      io.Writer
	sync     func() error
	begun    time.Time // of the present piece
	piece    int       // bytes of it
	unsynced int
}

func (p *pacedWriter) Write(bytes []byte) (int, error) {
	written, err := p.out.Write(bytes)
	p.piece += written
	p.unsynced += written
	if err == nil && p.unsynced >= syncBytes {
		p.unsynced = 0
		err = p.sync()
	}
	if p.piece >= paceBytes {
		time.Sleep(min(time.Since(p.begun), maxPause))
		p.piece, p.begun = 0, time.Now()
	}
	return written, err
}
