package container

import (
	"net/netip"
	"testing"
)

// TestHosts: names that the host's file has stay as they are, but for the job's own
// in a network of its own; nothing but a name and an address becomes a line.
func TestHosts(t *testing.T) {
	loopback, other := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("fe80::1%eth0")
	for _, test := range []struct {
		content string
		hosts   []Host
		want    string
	}{
		{"", nil, ""},
		{"127.0.0.1 localhost", []Host{{Name: "n1", Address: loopback}}, "127.0.0.1 localhost\n127.0.0.1\tn1\n"},
		{"10.0.0.1 n1.lab N1 # n2\n", []Host{{Name: "n1", Address: loopback}, {Name: "n2", Address: other}}, "10.0.0.1 n1.lab N1 # n2\nfe80::1\tn2\n"},
		{"10.0.0.1 n1\n", []Host{{Name: "n1", Address: loopback, First: true}}, "127.0.0.1\tn1\n10.0.0.1 n1\n"},
		{"10.0.0.2 n2\n", []Host{{Name: "n1", Address: loopback, Address6: netip.MustParseAddr("fd00::1"), First: true}}, "127.0.0.1\tn1\nfd00::1\tn1\n10.0.0.2 n2\n"},
		{"x y\n", []Host{{Name: "a b", Address: loopback}, {Name: "n\n1.2.3.4 www", Address: loopback}, {Name: "", Address: loopback}, {Name: "n3"}}, "x y\n"},
	} {
		if got := string(addHosts([]byte(test.content), test.hosts)); got != test.want {
			t.Errorf("%q with %v: %q, want %q", test.content, test.hosts, got, test.want)
		}
	}
}
