package checkpoint

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestOffsetWord: however unshare(1) of this machine reads numbers, a clock is set back.
func TestOffsetWord(t *testing.T) {
	if positive, negative := offsetWord(7, false), offsetWord(-3, false); positive != "7" || negative != "18446744073709551613" {
		t.Errorf("%s, %s", positive, negative)
	}
	if os.Getuid() != 0 {
		t.Skip("needs root: makes a time namespace")
	}
	word := offsetWord(-3, unshareTakesSigns())
	out, err := exec.Command("unshare", "--time", "--monotonic", word, "--", "cat", "/proc/self/timens_offsets").CombinedOutput()
	if fields := strings.Fields(string(out)); err != nil || len(fields) < 3 || fields[0] != "monotonic" || fields[1] != "-3" {
		t.Errorf("with %s: %v: %s", word, err, out)
	}
}
