package munge

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// A credential says who made it, and not to whom: whoever gets one could show it as their
// own. munged refuses one that it has decoded before, but only on its own host, and a
// cluster has several controllers. So its payload names the TLS connection over which it
// goes, by a secret that only the two ends of that connection have (RFC 5705, RFC 9266).
// On any other connection, to this cluster or another, it is worth nothing, and no
// controller has to remember it. The other end of that connection is a controller of this
// cluster: the client has seen its certificate before it asks for a credential.
//
// On a connection without a certificate of the client, what comes first is the length of
// the credential in two bytes, and the credential; then, from the other end, the length
// of why it is refused, and that. No length = it is accepted.
const (
	exporterLabel = "EXPORTER-gleaner-munge"
	payloadWord   = "gleaner munge 1\n"
	exporterBytes = 32
	maxRefusal    = 1 << 10
)

// ErrOtherConnection is returned for a credential that was made for another connection,
// or for another program.
var ErrOtherConnection = errors.New("the credential was not made for this connection: somebody repeats it")

// RefusedWord begins every error of Show: those of a handshake lose everything but their
// text on their way.
const (
	RefusedWord = "munge: "
	refusesWord = "the controller refuses the credential: "
)

// ErrBusy is returned where more credentials come than can be decoded.
var ErrBusy = errors.New("more credentials come than the controller decodes: try again in a moment")

// Refusal finds what Show said in the text of a failed connection, where gRPC puts it
// between quotation marks. final: to try again soon is of no use.
func Refusal(text string) (why string, final, found bool) {
	_, quoted, found := strings.Cut(text, "connection error: desc = ")
	if prefix, err := strconv.QuotedPrefix(quoted); found && err == nil {
		text, _ = strconv.Unquote(prefix)
	}
	_, why, found = strings.Cut(text, "handshake failed: "+RefusedWord)
	if !found {
		return "", false, false
	}
	passes := strings.Contains(why, ErrBusy.Error()) || strings.Contains(why, ErrNoDaemon.Error())
	final = strings.HasPrefix(why, refusesWord) && !passes || strings.Contains(why, "tls: certificate required")
	return why, final, true
}

// payload names a connection.
func payload(state *tls.ConnectionState) ([]byte, error) {
	secret, err := state.ExportKeyingMaterial(exporterLabel, nil, exporterBytes)
	if err != nil {
		return nil, fmt.Errorf("name the TLS connection: %w", err)
	}
	return append([]byte(payloadWord), secret...), nil
}

// Show says over a connection, in the place of a certificate, who asks.
func Show(ctx context.Context, conn net.Conn, state *tls.ConnectionState, socket string) error {
	if err := show(ctx, conn, state, socket); err != nil {
		return fmt.Errorf(RefusedWord+"%w", err)
	}
	return nil
}

func show(ctx context.Context, conn net.Conn, state *tls.ConnectionState, socket string) error {
	about, err := payload(state)
	if err != nil {
		return err
	}
	credential, err := Encode(ctx, socket, about)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = write(conn, credential) // a controller that refuses without reading says why
	refusal, err := read(conn, maxRefusal)
	switch {
	case err != nil:
		return fmt.Errorf("the controller takes certificates only, or hangs (%w): it needs munge_socket in its gctld.toml, or you a certificate (gctld cert --user NAME)", err)
	case refusal != "":
		return errors.New(refusesWord + refusal)
	}
	return nil
}

// Receive is the credential that comes first on a connection.
func Receive(conn net.Conn) (credential string, err error) {
	if credential, err = read(conn, maxCredential); err != nil {
		return "", fmt.Errorf("no credential comes: %w", err)
	}
	return credential, nil
}

// Verify asks munged who made a credential that came over a connection.
func Verify(ctx context.Context, state *tls.ConnectionState, socket, credential string) (Credential, error) {
	about, err := payload(state)
	if err != nil {
		return Credential{}, err
	}
	found, err := Decode(ctx, socket, credential)
	switch {
	case err != nil:
		return Credential{}, err
	case subtle.ConstantTimeCompare(found.Payload, about) != 1:
		return Credential{}, ErrOtherConnection
	case found.Decoded.Sub(found.Encoded) > TTL: // its maker may have asked for a longer life
		return Credential{}, ErrExpired
	}
	return found, nil
}

// Answer tells the other end that its credential was accepted, or why not.
func Answer(conn net.Conn, refusal error) error {
	why := ""
	if refusal != nil {
		why = refusal.Error()
	}
	return write(conn, why[:min(len(why), maxRefusal)])
}

func write(conn net.Conn, text string) error {
	_, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...))
	return err
}

func read(conn net.Conn, limit int) (string, error) {
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return "", err
	}
	length := int(binary.BigEndian.Uint16(size[:]))
	if length > limit {
		return "", fmt.Errorf("%d bytes are more than the %d that it may have", length, limit)
	}
	text := make([]byte, length)
	_, err := io.ReadFull(conn, text)
	return string(text), err
}
