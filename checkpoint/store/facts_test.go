package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// recorded is a stream of which all that is read is kept.
type recorded struct {
	net.Conn
	read bytes.Buffer
}

func (r *recorded) Read(into []byte) (int, error) {
	n, err := r.Conn.Read(into)
	r.read.Write(into[:n])
	return n, err
}

// TestFacts: of an image only what a machine needs to know comes, whatever is asked
// for on that stream, and no hash of its content. A stream for the image itself
// gives no facts either: each is for one thing.
func TestFacts(t *testing.T) {
	d := newStore(t, Limits{})
	mine := program(1, 10).put(t, d, 1, 1)
	whole, err := d.Manifest(t.Context(), mine.Digest)
	if err != nil {
		t.Fatal(err)
	}
	var stream *recorded
	remote := func(serve func(context.Context, io.ReadWriteCloser, Reader, checkpoint.Digest) error) *Remote {
		return NewRemote(func(context.Context) (io.ReadWriteCloser, error) {
			here, there := net.Pipe()
			go serve(t.Context(), there, d, mine.Digest)
			stream = &recorded{Conn: here}
			return stream, nil
		})
	}
	facts, err := remote(ServeFacts).Facts(t.Context(), mine.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if facts.Job != whole.Job || facts.Number != whole.Number || facts.Node != whole.Node || facts.Machine.Kernel != whole.Machine.Kernel || len(facts.Files) != len(whole.Files) {
		t.Errorf("the facts are %+v, of %+v", facts, whole)
	}
	sent, err := expandManifest(stream.read.Bytes()[5:])
	if err != nil {
		t.Fatal(err)
	}
	if encoded, _, err := whole.Encode(); err != nil || !bytes.Contains(encoded, []byte(`"chunks"`)) {
		t.Fatalf("the image has no chunks: nothing is looked at: %v", err)
	}
	if bytes.Contains(sent, []byte(`"chunks"`)) {
		t.Fatal("the sums of chunks were sent")
	}
	if _, err := remote(ServeFacts).Open(t.Context(), mine.Digest); !errors.Is(err, ErrNoImage) {
		t.Errorf("the image over a stream for its facts: %v", err)
	}
	if _, err := remote(Serve).Facts(t.Context(), mine.Digest); !errors.Is(err, ErrNoImage) {
		t.Errorf("facts over a stream for the image: %v", err)
	}
	if _, err := remote(ServeFacts).Facts(t.Context(), checkpoint.Digest{1}); !errors.Is(err, ErrNoImage) {
		t.Errorf("facts of another image: %v", err)
	}
}

// TestLyingFacts: what is no manifest is no answer.
func TestLyingFacts(t *testing.T) {
	for name, sent := range map[string][]byte{
		"nothing sound": []byte("{}"),
		"a path upward": []byte(`{"version":1,"job":1,"epoch":1,"number":1,"node":"../n1"}`),
		"no JSON":       {0xff},
	} {
		r := NewRemote(func(context.Context) (io.ReadWriteCloser, error) {
			here, there := net.Pipe()
			go func() {
				_, _ = io.ReadFull(there, make([]byte, len(factsMagic)+32))
				_ = writeFrame(there, frameFacts, compressManifest(sent))
			}()
			return here, nil
		})
		if _, err := r.Facts(t.Context(), checkpoint.Digest{1}); !errors.Is(err, checkpoint.ErrManifest) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
