// Package wire is the process that is one end of a gang's network, with WireGuard behind it:
// see package gangnet, whose questions it answers.
//
// Contract: it ends when nobody can ask it any more, and then nothing of it is left. Its
// UDP port is in the network namespace in which it began, the node's; the link is in the
// job's.
//
// WireGuard is the kernel's where the kernel has it, and wireguard-go otherwise. Each process
// finds out by trying, once, and both speak with both.
package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/gleaner-hpc/gleaner/noded/gangnet"
)

// Main answers questions until there are no more.
func Main(questions io.Reader, answers io.Writer, log *slog.Logger) error {
	e := &end{log: log, try: tryKernel}
	return errors.Join(e.answerAll(json.NewDecoder(questions), json.NewEncoder(answers)), e.close())
}

// wireguard is what carries the network.
type wireguard interface {
	// begin takes the UDP port, or any if it is 0, and answers it.
	begin(key []byte, port uint16) (uint16, error)
	// meet sets the peers, in place of those before.
	meet(peers []gangnet.Peer) error
	// move gives a peer another endpoint.
	move(peer gangnet.Peer) error
	// open makes the link, in place of the one before.
	open(o *gangnet.Opened) error
	// cut removes it. When it returns, the interface has gone; the port stays taken.
	cut() error
	// heard answers when keys were last agreed on, by peer; errDeaf while that cannot be
	// known.
	heard() (map[string]int64, error)
	// close gives everything back.
	close() error
}

// end is one allocation's part of the network.
type end struct {
	log  *slog.Logger
	try  func() error // whether the kernel has WireGuard
	with wireguard    // nil = it has not begun
}

var (
	errNotBegun = errors.New("it has not begun: ask that first")
	errBegun    = errors.New("it has begun already")
)

func (e *end) answerAll(in *json.Decoder, out *json.Encoder) error {
	for {
		var question gangnet.Question
		if err := in.Decode(&question); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a question: %w", err)
		}
		answer, err := e.answer(&question)
		if err != nil {
			answer.Error = err.Error()
		}
		if err := out.Encode(answer); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
}

func (e *end) answer(q *gangnet.Question) (answer gangnet.Answer, err error) {
	switch {
	case q.Begin != nil:
		return e.begin(q.Begin)
	case e.with == nil:
		err = errNotBegun
	case q.Open != nil:
		err = e.with.open(q.Open)
	case q.Cut:
		err = e.with.cut()
	case q.Move != nil:
		err = e.with.move(*q.Move)
	case q.Heard:
		answer.Heard, err = e.with.heard()
		if errors.Is(err, errDeaf) {
			answer.Deaf, err = true, nil
		}
	default:
		err = e.with.meet(q.Peers)
	}
	return answer, err
}

// begin decides with what the network is carried, for all of its run.
func (e *end) begin(b *gangnet.Began) (answer gangnet.Answer, err error) {
	if e.with != nil {
		return answer, errBegun
	}
	var with wireguard
	why := errAsked
	if !b.Userspace {
		why = e.try()
	}
	if why == nil {
		with = &kernel{}
	} else {
		with = &userspace{log: e.log}
		answer.Userspace = why.Error()
	}
	if answer.Port, err = with.begin(b.PrivateKey, b.Port); err != nil {
		return answer, errors.Join(fmt.Errorf("open a UDP port: %w", err), with.close())
	}
	e.with = with
	return answer, nil
}

// errAsked is why the kernel's WireGuard is not used though it may be there.
var errAsked = errors.New("WireGuard in a process was asked for")

func (e *end) close() error {
	if e.with == nil {
		return nil
	}
	return e.with.close()
}
