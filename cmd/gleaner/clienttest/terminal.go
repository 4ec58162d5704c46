package clienttest

import (
	"testing"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// CheckTerminal fails when text holds what a terminal might obey, or bytes
// that are no text.
func CheckTerminal(t *testing.T, what string, text []byte) {
	t.Helper()
	if err := prototest.Plain(string(text)); err != nil {
		t.Fatalf("%s: this reaches the terminal: %v", what, err)
	}
}
