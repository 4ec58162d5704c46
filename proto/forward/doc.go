// Package forward carries connections to ports inside a job over one stream: gforward.
//
// Contract. One end, Serve, is in the job, as its user, and connects to what it is asked
// for. The other end, Client, is the user's, and opens connections there. Many are open at a
// time, each with a bounded buffer, and none holds up another. The stream may pause for as
// long as it likes, as it does while a job is saved and moved: nothing is closed for that.
//
// The stream is the output and the input of a session (package step), which counts its
// bytes. A stream that lost some, or goes back to what it was earlier, is over, with all of its
// connections.
package forward

import (
	"errors"
	"io"
	"log"
	"time"

	"github.com/hashicorp/yamux"
)

// How gforward asks for the job's end, as a session without a terminal: Init Word.
const Word = "forward"

// ExitLonely is the exit status of the job's end when nobody was there for long. Another
// one is begun then.
const ExitLonely = 75

// MaxConnections is how many connections are open at a time. Each may have 256 KiB on its
// way in either direction.
const MaxConnections = 128

const (
	// pingEvery is how often the user's end says that it is there.
	pingEvery = time.Minute
	// forLong is longer than any wait here may be: a stream pauses as long as its job waits.
	forLong = 365 * 24 * time.Hour
	// closeTime is how long a connection may be closed in one direction only.
	closeTime = 5 * time.Minute
)

// ErrFull is returned, wrapped, when MaxConnections are open.
var ErrFull = errors.New("too many connections at a time")

func config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.AcceptBacklog = MaxConnections
	c.EnableKeepAlive, c.KeepAliveInterval = false, pingEvery
	c.ConnectionWriteTimeout, c.StreamOpenTimeout, c.StreamCloseTimeout = forLong, 0, closeTime
	c.LogOutput, c.Logger = nil, log.New(io.Discard, "", 0) // errors come back from the calls
	return c
}
