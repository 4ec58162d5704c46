package console

import (
	"os"
	"strings"
	"testing"

	"github.com/containerd/console"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// The line fits on the terminal, also on one that does not say how wide it is.
func TestProgressFits(t *testing.T) {
	for width, want := range map[uint16]string{
		0:  "\r\x1b[K2 guests have to leave n[1-9] (0 s)",
		20: "\r\x1b[K2 guests (0 s)",
		5:  "\r\x1b[K (0 s)",
	} {
		master, path, err := console.NewPty()
		if err != nil {
			t.Skip("needs pseudo terminals (/dev/ptmx):", err)
		}
		if err := master.Resize(console.WinSize{Width: width}); err != nil {
			t.Fatal(err)
		}
		terminal, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Fatal(err)
		}
		p := NewProgress(&option.Invocation{Stderr: terminal})
		p.Show("%d guests have to leave %s", 2, "n[1-9]")
		said := make([]byte, 256)
		n, err := master.Read(said)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimRight(string(said[:n]), " "); !strings.HasPrefix(got, want[:len(want)-6]) || len(got) > len(want)+2 {
			t.Errorf("at width %d: %q, want %q", width, got, want)
		}
		p.Clear()
		_, _ = terminal.Close(), master.Close()
	}
}
