// Package munge speaks to munged, the daemon of MUNGE (munge(7)), over its unix socket:
// hosts that share a key learn from one another's daemons which user made a credential.
//
// Contract: Encode has the daemon of this host make a credential, in the name of the user
// who asks, whom the daemon knows from the kernel. Decode has it say who made one, of a
// host with the same key. What goes over the socket is libmunge's version 4, which has
// been the same since munge 0.5.9. Nothing is repeated, so that no credential looks as if
// it were shown twice. Show and Verify bind a credential to one connection (channel.go).
package munge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

// DefaultSocket is where munged listens on most systems.
const DefaultSocket = "/run/munge/munge.socket.2"

// TTL is how long a credential that Encode asks for is good: for a handshake, between
// hosts whose clocks differ a little.
const TTL = 60 * time.Second

// Bounds of one question to the daemon.
const (
	maxCredential = 4 << 10 // bytes of one; a payload of 64 makes about 200
	maxAnswer     = 8 << 10
	answerLimit   = 5 * time.Second
)

// anyID lets everybody decode a credential who has the key.
const anyID = 1<<32 - 1

// Errors of the daemon, with what to do. Each is about one credential, except
// ErrNoDaemon.
var (
	// ErrNoDaemon is returned when munged cannot be asked on this host.
	ErrNoDaemon = errors.New("munged cannot be asked")
	// ErrInvalid is returned for a credential of another key, and for what is none.
	ErrInvalid = errors.New("the credential was made with another key, or changed on its way: munge.key must be the same on both hosts, and munged restarted after it was replaced")
	// ErrExpired is returned for one whose time is over.
	ErrExpired = errors.New("the credential has expired: see that the clocks of both hosts agree")
	// ErrRewound is returned for one that was made in the future.
	ErrRewound = errors.New("the credential was made in the future: see that the clocks of both hosts agree")
	// ErrReplayed is returned for one that the daemon has decoded before.
	ErrReplayed = errors.New("the credential was shown before: somebody repeats it")
	// ErrUnauthorized is returned for one that is meant for another user.
	ErrUnauthorized = errors.New("the credential is not for the user as whom the controller runs")
)

// Credential is what the daemon says of one.
type Credential struct {
	UID, GID         uint32
	Payload          []byte
	Encoded, Decoded time.Time // by the clock of the host that made it, and of this one
	TTL              time.Duration
}

// Encode has munged make a credential around the payload.
func Encode(ctx context.Context, socket string, payload []byte) (string, error) {
	answer, err := ask(ctx, socket, encodeRequest, packEncode(payload))
	if err != nil {
		return "", err
	}
	credential, err := unpackEncoded(answer)
	if errors.Is(err, errShape) {
		return "", errAnswer(socket)
	}
	return credential, err
}

// unpackEncoded takes an answer with a credential apart.
func unpackEncoded(answer *reader) (string, error) {
	code, text := answer.byte(), answer.text()
	credential := answer.data()
	switch end := len(credential) - 1; {
	case answer.short || len(answer.left) > 0:
		return "", errShape
	case code != success:
		return "", failure(code, text)
	case end < 1 || end > maxCredential || bytes.IndexByte(credential, 0) != end:
		return "", errShape
	default:
		return string(credential[:end]), nil
	}
}

// Decode has munged say who made a credential. One that is no longer good is an error.
func Decode(ctx context.Context, socket, credential string) (Credential, error) {
	if len(credential) == 0 || len(credential) > maxCredential {
		return Credential{}, fmt.Errorf("%w (it has %d bytes)", ErrInvalid, len(credential))
	}
	answer, err := ask(ctx, socket, decodeRequest, packDecode(credential))
	if err != nil {
		return Credential{}, err
	}
	found, err := unpackDecoded(answer)
	if errors.Is(err, errShape) {
		return Credential{}, errAnswer(socket)
	}
	return found, err
}

// unpackDecoded takes an answer apart that says who made a credential.
func unpackDecoded(answer *reader) (Credential, error) {
	code, text := answer.byte(), answer.text()
	answer.skip(3) // cipher, MAC, compression
	answer.text()  // realm
	found := Credential{TTL: time.Duration(answer.number()) * time.Second}
	answer.skip(int(answer.byte())) // the address of the host, as it knows itself
	found.Encoded = time.Unix(int64(answer.number()), 0)
	found.Decoded = time.Unix(int64(answer.number()), 0)
	found.UID, found.GID = answer.number(), answer.number()
	answer.skip(8) // who may decode it
	found.Payload = answer.data()
	switch {
	case answer.short || len(answer.left) > 0:
		return Credential{}, errShape
	case code != success:
		return Credential{}, failure(code, text)
	}
	return found, nil
}

// Try has munged make a credential and say who made it.
func Try(ctx context.Context, socket string) error {
	text, err := Encode(ctx, socket, []byte("gleaner"))
	if err != nil {
		return err
	}
	found, err := Decode(ctx, socket, text)
	if err == nil && found.UID != uint32(os.Geteuid()) {
		err = fmt.Errorf("munged says that user %d made what user %d did", found.UID, os.Geteuid())
	}
	return err
}

// ask puts one question to the daemon.
func ask(ctx context.Context, socket string, kind byte, body []byte) (*reader, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, noDaemon(socket, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := conn.Write(pack(kind, body)); err != nil {
		return nil, noDaemon(socket, err)
	}
	head := make([]byte, headBytes)
	if _, err := io.ReadFull(conn, head); err != nil {
		return nil, noDaemon(socket, err)
	}
	size, ok := unpackHead(head, kind+1)
	if !ok || size > maxAnswer {
		return nil, errAnswer(socket)
	}
	answer := make([]byte, size)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return nil, noDaemon(socket, err)
	}
	return &reader{left: answer}, nil
}

// errShape is for an answer that is not put together as munged does it.
var errShape = errors.New("not an answer of munged")

func noDaemon(socket string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: nothing listens on %s: start munge.service there, or correct munge_socket", ErrNoDaemon, socket)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %s may not be opened: munged lets everybody open it, and so must its directory", ErrNoDaemon, socket)
	}
	return fmt.Errorf("%w: %s does not answer (%v)", ErrNoDaemon, socket, err)
}

func errAnswer(socket string) error {
	return fmt.Errorf("%w: what listens on %s does not answer as munged 0.5.9 and later do", ErrNoDaemon, socket)
}

// failure is what an error number of munge.h means.
func failure(code byte, text string) error {
	switch code {
	case 8, 9, 10, 11, 12, 13, 14: // not a credential, of another version, or of another key
		return ErrInvalid
	case 15:
		return ErrExpired
	case 16:
		return ErrRewound
	case 17:
		return ErrReplayed
	case 18:
		return ErrUnauthorized
	}
	return fmt.Errorf("%w: it says %.200q (error %d)", ErrNoDaemon, text, code)
}
