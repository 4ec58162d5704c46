package spec

import (
	"slices"
	"strings"
	"testing"
)

func TestDestinations(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.0/8": "10.0.0.0/8", "10.1.0.7": "10.1.0.7", "10.1.0.7/32": "10.1.0.7", "10.0.0.0/8:443": "10.0.0.0/8:443",
		"10.1.0.7:8000-8099": "10.1.0.7:8000-8099", "10.1.0.7:80-80": "10.1.0.7:80", "0.0.0.0/0:443": "0.0.0.0/0:443",
		"2001:db8::1": "2001:db8::1", "2001:db8::/32": "2001:db8::/32", "[2001:db8::/32]:443": "[2001:db8::/32]:443", "[::1]": "::1", "::/0": "::/0",
	} {
		d, err := ParseDestination(text)
		if err != nil || d.String() != want {
			t.Errorf("%s: %v, %v, want %s", text, d, err, want)
		}
	}
	for _, bad := range []string{
		"", "x", "10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/8:", "10.0.0.0/8:0", "10.0.0.0/8:65536", "10.0.0.0/8:9-8", "10.0.0.0/8:-", "10.0.0.0/8:+1", "10.0.0.0/8:01",
		"[10.0.0.0/8", "[::/0]443", "[::/0]:", "fe80::1%eth0", "::ffff:10.0.0.1", "::ffff:10.0.0.0/104", "10.0.0.0/8 ", "example.org", "example.org:443",
	} {
		if d, err := ParseDestination(bad); err == nil || !strings.Contains(err.Error(), "is no destination: ") {
			t.Errorf("%q: %v, %v", bad, d, err)
		}
	}
}

// TestCommonDestinations: what two lists allow together is what both do.
func TestCommonDestinations(t *testing.T) {
	list := strings.Fields
	for _, c := range []struct{ a, b, want string }{
		{"", "", ""}, {"all", "", ""}, {"", "10.0.0.0/8", "10.0.0.0/8"}, {"all", "none", "none"}, {"none", "all", "none"}, {"none", "10.0.0.0/8", "none"},
		{"10.0.0.0/8", "10.1.0.0/16:443 192.0.2.1", "10.1.0.0/16:443"}, {"10.1.0.7:80-90", "10.0.0.0/8:85-99", "10.1.0.7:85-90"},
		{"10.1.0.7:80", "10.1.0.7:81", "none"}, {"10.0.0.0/8 2001:db8::/32", "[2001:db8::7]:22 10.0.0.0/9", "10.0.0.0/9 [2001:db8::7]:22"},
		{"10.0.0.0/8 10.0.0.0/9", "10.0.0.1", "10.0.0.1"}, {"0.0.0.0/0", "::/0", "none"},
	} {
		for _, way := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			got := CommonDestinations(list(way[0]), list(way[1]))
			if len(got) == 1 && got[0] == Everywhere {
				got = nil
			}
			slices.Sort(got)
			if want := list(c.want); !slices.Equal(got, want) && !(len(got) == 0 && len(want) == 0) {
				t.Errorf("%q and %q: %q, want %q", way[0], way[1], got, want)
			}
		}
	}
}

// FuzzDestination: what is read is written in one form, which is read as the same.
func FuzzDestination(f *testing.F) {
	for _, seed := range []string{"10.0.0.0/8:443", "[2001:db8::/32]:1-2", "::1", "]", "[", ":", "1.2.3.4:5-"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDestination(text)
		if err != nil {
			return
		}
		if again, err := ParseDestination(d.String()); err != nil || again != d {
			t.Errorf("%q is %q, which is %v, %v", text, d, again, err)
		}
	})
}
