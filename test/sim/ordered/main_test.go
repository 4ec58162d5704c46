package ordered

import (
	"os"
	"runtime/debug"
	"testing"
)

// Almost all that is made in a day is garbage at its end.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
