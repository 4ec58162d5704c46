package trustroot

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/test/registry/sigstore"
)

func rootOf(t testing.TB, change func(*sigstore.Site)) []byte {
	t.Helper()
	site, err := sigstore.New(now)
	if err != nil {
		t.Fatal(err)
	}
	change(site)
	text, err := site.Root()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func TestRoot(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*sigstore.Site)
		lacking string
		ends    time.Time
	}{
		"good":            {func(*sigstore.Site) {}, "", now.Add(9 * 365 * day)}, // its certificates'
		"authority ended": {func(s *sigstore.Site) { s.AuthorityUntil = now.Add(-day) }, "certificate authority", now.Add(-day)},
		"log ends":        {func(s *sigstore.Site) { s.LogUntil = now.Add(day) }, "", now.Add(day)},
		"a clock, no log": {func(s *sigstore.Site) { s.NoLog = true }, "", now.Add(9 * 365 * day)},
		"log ended":       {func(s *sigstore.Site) { s.LogUntil = now.Add(-day) }, "transparency log", now.Add(-day)},
	} {
		r, err := Parse(rootOf(t, test.change))
		if err != nil {
			t.Fatal(err)
		}
		if r.Lacking(now) != test.lacking || !r.Ends().Equal(test.ends) || !r.Newest().Equal(now.Add(-365*day)) {
			t.Errorf("%s: lacks %q, ends %v, newest %v", name, r.Lacking(now), r.Ends(), r.Newest())
		}
	}
}

func TestParse(t *testing.T) {
	good := string(rootOf(t, func(*sigstore.Site) {}))
	for name, test := range map[string]struct{ text, want string }{
		"no JSON":        {"x", "invalid character"},
		"something else": {"{}", `its mediaType is ""`},
		"no authority":   {strings.Replace(good, `"certificateAuthorities"`, `"others"`, 1), "lists no certificate authority"},
		"no log":         {strings.Replace(good, `"tlogs"`, `"others"`, 1), "lists no transparency log"},
		"bad bytes":      {strings.Replace(good, `"rawBytes": "MII`, `"rawBytes": "AAA`, 1), "authority"},
		"bad time":       {strings.Replace(good, `"start": "20`, `"start": "x`, 1), "parsing time"},
	} {
		if test.text == good {
			t.Fatalf("%s: nothing was changed", name)
		}
		if _, err := Parse([]byte(test.text)); !errors.Is(err, ErrNoRoot) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	one, err := Compact([]byte(good))
	if err != nil || len(one) >= len(good) || bytes.Contains(one, []byte("\n")) {
		t.Errorf("compact: %d of %d bytes, %v", len(one), len(good), err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(rootOf(f, func(*sigstore.Site) {}))
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := Parse(text); err == nil {
			r.Lacking(now)
			r.Ends()
			r.Newest()
		}
	})
}
