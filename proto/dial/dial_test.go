package dial

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestTargets(t *testing.T) {
	cases := []struct {
		flag, environment string
		want              []string
	}{
		{"", "", []string{DefaultTarget}},
		{"", "unix:///a, h:1", []string{"unix:///a", "h:1"}},
		{"unix:///b", "unix:///a", []string{"unix:///b"}},
		{" , ", "h:1", []string{"h:1"}},
	}
	for _, c := range cases {
		t.Setenv(EnvironmentController, c.environment)
		if got, _ := Targets(c.flag); !slices.Equal(got, c.want) {
			t.Errorf("Targets(%q) with %q: %v, want %v", c.flag, c.environment, got, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	cases := []struct{ target, network, address string }{
		{"unix:///run/x.sock", "unix", "/run/x.sock"},
		{"host:6817", "tcp", "host:6817"},
		{"[::1]:6817", "tcp", "[::1]:6817"},
		{"unix://relative", "", ""},
		{"host", "", ""},
		{"host:", "", ""},
		{":1", "", ""},
		{"http://host:1", "", ""},
		{"", "", ""},
		{"host:http", "", ""},
		{"host:0", "", ""},
		{"host:65536", "", ""},
		{"unix:///" + strings.Repeat("x", 106), "unix", "/" + strings.Repeat("x", 106)},
		{"unix:///" + strings.Repeat("x", 107), "", ""},
	}
	for _, c := range cases {
		network, address, err := parse(c.target)
		if network != c.network || address != c.address || (err == nil) != (c.network != "") {
			t.Errorf("parse(%q) = %q, %q, %v", c.target, network, address, err)
		}
		if err != nil && !errors.Is(err, ErrTarget) {
			t.Errorf("parse(%q): %v", c.target, err)
		}
	}
}

func TestDialRefuses(t *testing.T) {
	t.Setenv(EnvironmentTLSDir, "")
	if _, err := Dial([]string{"h:1"}, ""); !errors.Is(err, ErrTLSDir) {
		t.Errorf("TCP without certificates: %v", err)
	}
	if _, err := Dial(nil, ""); !errors.Is(err, ErrTarget) {
		t.Errorf("no target: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{DefaultTarget, "h:1", "[::1]:2", "unix://", ":::", "a!b:1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, target string) {
		network, address, err := parse(target)
		if err == nil && (address == "" || (network != "unix" && network != "tcp")) {
			t.Errorf("parse(%q) = %q, %q", target, network, address)
		}
	})
}
