package forward

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
)

func TestMain(m *testing.M) { clienttest.Patient(m) }

var stage = clienttest.Of(Command())

func TestDialogues(t *testing.T) { stage.Dialogues(t) }

func TestPairs(t *testing.T) {
	for text, want := range map[string]pair{"8888": {8888, 8888}, "80:8080": {80, 8080}, "65535:1": {65535, 1}} {
		if got, err := parsePair(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", ":", "0", "1:", ":1", "65536", "-1", "+1", "1:2:3", "http", "8888:0", "1 "} {
		if got, err := parsePair(bad); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

// TestListen: all ports are open or none, and the error has another port that may do.
func TestListen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := netip.MustParseAddrPort(taken.Addr().String()).Port()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other := netip.MustParseAddrPort(free.Addr().String()).Port()
	free.Close()
	if _, err := listen("127.0.0.1", []pair{{80, other}, {81, port}}); err == nil || !strings.Contains(err.Error(), "is in use on this host: choose another local port, as in 81:"+strconv.Itoa(int(another(port)))) {
		t.Error(err)
	}
	listeners, err := listen("127.0.0.1", []pair{{80, other}})
	if err != nil {
		t.Fatalf("the first port stayed open: %v", err)
	}
	listeners[0].Close()
	for address, want := range map[string]string{"localhost": "is no address", "192.0.2.77": "is no address of this host"} {
		if _, err := listen(address, []pair{{80, other}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
	at := netip.MustParseAddr("127.0.0.1")
	if got := cannotListen(at, pair{80, 80}, unix.EACCES); !strings.Contains(got, "as in 80:10080") {
		t.Error(got)
	}
}
