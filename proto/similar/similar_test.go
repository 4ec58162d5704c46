package similar

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	words := []string{"time", "tmp", "partition", "gpus", "gpus-per-node", "ntasks", "ntasks-per-node", "QOS", "State", "Name", "show", "hold"}
	for typed, want := range map[string]string{
		"tmie": "time", "partitoin": "partition", "patition": "partition", "gpu-per-node": "gpus-per-node",
		"n-tasks": "ntasks", "shwo": "show", "stat": "State", "NAEM": "Name", "gpu": "gpus",
		"foo": "", "bogus": "", "": "", "x": "", "-": "", "\xff\x00": "", strings.Repeat("time", 1<<16): "",
	} {
		if got := Nearest(typed, words); got != want {
			t.Errorf("%.20q: %q, want %q", typed, got, want)
		}
	}
	if got := Nearest("time", nil); got != "" {
		t.Errorf("of no words: %q", got)
	}
}

func FuzzNearest(f *testing.F) {
	f.Add("tmie", "time")
	f.Add("\xff", "")
	f.Fuzz(func(t *testing.T, typed, word string) {
		if got := Nearest(typed, []string{word}); got != "" && got != word {
			t.Errorf("%q is none of the words", got)
		}
	})
}
