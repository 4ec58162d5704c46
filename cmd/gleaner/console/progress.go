package console

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// Progress is one line on the terminal that says what a command waits for. Without a
// terminal, and with --quiet, there is none.
type Progress struct {
	file  *os.File // nil = nowhere
	began time.Time
	shown bool
}

// NewProgress is a line that counts the seconds from now on.
func NewProgress(inv *option.Invocation) *Progress {
	p := &Progress{began: time.Now()}
	if file, is := inv.Stderr.(*os.File); is && AtTerminal(inv.Stderr) && !inv.Given("quiet") {
		p.file = file
	}
	return p
}

// Show replaces the line.
func (p *Progress) Show(words string, arguments ...any) {
	if p.file == nil {
		return
	}
	text := format.Printable(fmt.Sprintf(words, arguments...))
	if width, _, err := term.GetSize(int(p.file.Fd())); err == nil && width > 0 {
		text = format.Cut(text, width-12)
	}
	fmt.Fprintf(p.file, "\r\x1b[K%s (%d s)", text, int(time.Since(p.began).Seconds()))
	p.shown = true
}

// Clear takes the line away.
func (p *Progress) Clear() {
	if p.shown {
		fmt.Fprint(p.file, "\r\x1b[K")
		p.shown = false
	}
}

// AtTerminal reports whether a human reads what is written there.
func AtTerminal(out io.Writer) bool {
	file, is := out.(*os.File)
	return is && term.IsTerminal(int(file.Fd()))
}
