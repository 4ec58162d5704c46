package state

import (
	"errors"
	"fmt"
)

// Errors that mean that this peer must not continue.
var (
	// ErrUnknownCommand is returned when a log entry has a version, kind or
	// field that this program does not know. If the peer continued without it,
	// its state would differ from the others': stop, and upgrade this peer.
	ErrUnknownCommand = errors.New("written by a newer program: upgrade this controller")
	// ErrCorruptCommand is returned when a log entry does not match its
	// checksum or is not what an encoder of any version writes.
	ErrCorruptCommand = errors.New("log entry is damaged: remove this peer's data and let it copy from another")
	// ErrCorruptSnapshot is returned when a persisted state is damaged.
	ErrCorruptSnapshot = errors.New("persisted state is damaged")
	// ErrNotFound is returned when a View has no such job or node.
	ErrNotFound = errors.New("not found")
)

// Code says what kind of refusal it is, so that a caller can map it.
type Code uint8

// Codes. The numbers are part of remembered results: append only.
const (
	OK           Code = 0 // done
	AlreadyDone  Code = 1 // nothing to do: it is so already
	Invalid      Code = 2 // the request makes no sense, whatever the state
	NotFound     Code = 3 // no such job, task, node or partition
	Denied       Code = 4 // not this user's
	Exhausted    Code = 5 // a limit of the site or the program
	WrongState   Code = 6 // not in the state it has to be in
	Disabled     Code = 7 // the job's own options forbid it
	RequestReuse Code = 8 // the request id belongs to another request
	ContentGone  Code = 9 // content was named by its digest and is not there: send it whole
)

// Refusal is a command that was applied and had no effect, with the reason for
// the user. It is deterministic: every peer refuses it with the same words.
type Refusal struct {
	Code    Code   `cbor:"1,keyasint"`
	Message string `cbor:"2,keyasint"`
}

// Error is the message for the user.
func (r *Refusal) Error() string { return r.Message }

func refuse(code Code, format string, arguments ...any) *Refusal {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, arguments...)}
}
