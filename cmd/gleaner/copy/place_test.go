package copy

import (
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
)

func TestPlaces(t *testing.T) {
	for text, want := range map[string]place{
		"12:/tmp/x": {"12", "/tmp/x"}, "12:": {"12", "."}, "13_4:a:b": {"13_4", "a:b"}, "12: x": {"12", " x"},
		"./12:x": {"", "./12:x"}, "x": {"", "x"}, "x:y": {"", "x:y"}, "12": {"", "12"}, "": {"", ""}, ":x": {"", ":x"}, "-1:x": {"", "-1:x"},
		"1,2:x": {"", "1,2:x"}, "/a/12:x": {"", "/a/12:x"}, "0:x": {"", "0:x"},
	} {
		if got := parsePlace(text); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

// TestWhoseTrouble: a file that cannot be read is named where it lies.
func TestWhoseTrouble(t *testing.T) {
	there := place{"12", "/tmp/"}
	if ours, theirs := nameOf(there, "x", true), nameOf(there, "x", false); ours != "x" || theirs != "12:/tmp/" {
		t.Errorf("%s and %s", ours, theirs)
	}
}

// FuzzPlace: what is taken for a job's place names one job or several, and nothing is lost of
// the path.
func FuzzPlace(f *testing.F) {
	f.Add("12:/tmp/x")
	f.Add("13_[1-4]:a:b")
	f.Fuzz(func(t *testing.T, text string) {
		got := parsePlace(text)
		if got.job == "" && got.path != text {
			t.Errorf("%q: %+v", text, got)
		}
		if got.job == "" {
			return
		}
		if _, err := client.OneJob(got.job); err != nil && !strings.Contains(err.Error(), "several jobs") {
			t.Errorf("%q: %v", text, err)
		}
		if got.path != "." && got.job+":"+got.path != text {
			t.Errorf("%q: %+v", text, got)
		}
	})
}
