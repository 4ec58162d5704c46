package console

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// Confirm asks a question on the terminal and reports whether the answer is
// yes; an interrupt is a no. Without a terminal it fails, and says what to do
// instead.
func Confirm(inv *option.Invocation, to io.Writer, question, instead string) (yes bool, err error) {
	input, isFile := inv.Stdin.(*os.File)
	if !isFile || !term.IsTerminal(int(input.Fd())) {
		return false, inv.Fail("nothing was changed: %s", instead)
	}
	fmt.Fprint(to, question)
	answer, err := readLine(inv, input)
	if err != nil {
		return false, err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}
