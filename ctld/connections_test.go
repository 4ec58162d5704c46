package ctld

import (
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// TestConnectionsAreBounded: one too many is closed at once, and a place given
// back is used again.
func TestConnectionsAreBounded(t *testing.T) {
	inner, err := net.Listen("unix", filepath.Join(shortDir(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	listener := bound(inner).(*boundListener)
	if listener.limit < 100 {
		t.Errorf("only %d connections are let in", listener.limit)
	}
	listener.limit = 2
	accepted := make(chan net.Conn, 3)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	dial := func() net.Conn {
		conn, err := net.Dial("unix", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	dial()
	dial()
	first, _ := <-accepted, <-accepted
	third := dial()
	if err := third.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := third.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("one too many: %v", err)
	}
	_ = first.Close()
	_ = first.Close() // gives one place back, not two
	dial()
	prototest.Receive(t, "a place given back is used", accepted)
	if open := listener.open.Load(); open != 2 {
		t.Errorf("%d are counted", open)
	}
}
