package spec

import (
	"strings"
	"testing"
)

func TestParseExitCodes(t *testing.T) {
	for in, want := range map[string]string{"1-9,18": "1-9,18", "18,1-9,5": "1-9,18", "255": "255", "": ""} {
		got, err := ParseExitCodes(in)
		if text := FormatArray(got, 0); err != nil || text != want {
			t.Errorf("%q is %q, %v; want %q", in, text, err, want)
		}
	}
	for in, want := range map[string]string{
		"0-9": "ends well", "256": "the highest is 255", "x": "no list of exit statuses", "1-9%2": "no list", ",": "no list", "9-1": "no list",
	} {
		if got, err := ParseExitCodes(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", in, got, err, want)
		}
	}
	if _, err := CheckExitCodes(nil); err == nil {
		t.Error("no statuses at all are a list")
	}
}

func FuzzExitCodes(f *testing.F) {
	for _, seed := range []string{"1-9,18", "0", "256", "1-255:3"} {
		f.Add(seed)
	}
	f.Add(long)
	f.Fuzz(func(t *testing.T, in string) {
		codes, err := ParseExitCodes(in)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if len(codes) > 0 && (codes[0].GetFirst() == 0 || codes[len(codes)-1].GetLast() > highestExitCode) {
			t.Fatalf("%q has %v", in, codes)
		}
	})
}
