package scenario

import (
	"net"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
)

func init() { commands["impostor"] = startImpostor }

// impostors are what may listen on a socket in gctld's place: what each says
// to whoever connects.
var impostors = map[string]func(net.Conn){
	"closes": func(c net.Conn) { _ = c.Close() },
	"silent": func(net.Conn) {},
	"ssh":    func(c net.Conn) { _, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.2\r\n")) },
	"http":   func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")); _ = c.Close() },
	"dead":   nil, // a socket file that nobody listens on any more
}

// startImpostor is `impostor KIND SOCKET`: listens on a socket that every user
// may open, until the story ends.
func startImpostor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: impostor KIND SOCKET")
	}
	serve, known := impostors[args[0]]
	if !known {
		ts.Fatalf("there is no impostor %q", args[0])
	}
	path := ts.MkAbs(args[1])
	if len(path) > 107 { // what unix(7) allows; the story's own folder is deep
		ts.Fatalf("%s is too long for a socket", path)
	}
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o755))
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	ts.Check(err)
	ts.Check(os.Chmod(path, 0o777))
	if serve == nil {
		listener.SetUnlinkOnClose(false)
		ts.Check(listener.Close())
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var connections []net.Conn
		for {
			connection, err := listener.Accept()
			if err != nil {
				break
			}
			serve(connection)
			connections = append(connections, connection)
		}
		for _, connection := range connections {
			_ = connection.Close()
		}
	}()
	ts.Defer(func() {
		_ = listener.Close()
		<-ended
	})
}
