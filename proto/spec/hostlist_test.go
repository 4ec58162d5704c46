package spec

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestParseHostList(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"", ""},
		{"n1", "n1"},
		{"n1,n2,n1", "n1 n2"},
		{"n[1-3,07],x", "n1 n2 n3 n07 x"},
		{"n[08-11]", "n08 n09 n10 n11"},
		{"n[9-11]", "n9 n10 n11"},
		{"n[0-2]", "n0 n1 n2"},
		{"rack[1-2]node[1-2]", "rack1node1 rack1node2 rack2node1 rack2node2"},
		{"[1-2].lab", "1.lab 2.lab"},
		{" b , a ,,", "b a"},
		{"login-1.example", "login-1.example"},
	} {
		got, err := ParseHostList(test.in)
		if err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("ParseHostList(%q) = %q, %v; want %q", test.in, got, err, test.want)
		}
	}
}

func TestParseHostListRefuses(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"n[1-3", "bracket"},
		{"n1-3]", "bracket"},
		{"n[[1-3]]", "bracket"},
		{"n[3-1]", "write 1-3"},
		{"n[]", "between the brackets"},
		{"n[a-b]", "between the brackets"},
		{"n[1-]", "between the brackets"},
		{"n[01-100]", "same number of digits"},
		{"n[8-010]", "same number of digits"},
		{"n[1-99999999999]", "more than 65536 hosts"},
		{"n[1-999999999999999999999999]", "between the brackets"},
		{"a[1-1000]b[1-1000]c[1-1000]d[1-1000]e[1-1000]f[1-1000]g[1-1000]", "more than 65536 hosts"},
		{"n[1-60000],m[1-60000]", "more than 65536 hosts"},
		{"n[1-60000,1-60000]", "more than 65536 hosts"},
		{"a b", "use letters"},
		{"n1;reboot", "use letters"},
		{"é", "use letters"},
		{strings.Repeat("n", 300), "longer than 253"},
		{strings.Repeat("n", 250) + "[1-9]x[1-9]x[1-9]", "longer than 253"},
		{strings.Repeat("n,", 1<<20), "too long"},
	} {
		_, err := ParseHostList(test.in)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("ParseHostList(%.60q): error %v, want one about %q", test.in, err, test.want)
		}
		if made := testing.AllocsPerRun(1, func() { _, _ = ParseHostList(test.in) }); made > 1000 {
			t.Errorf("ParseHostList(%.60q) makes %.0f things before it refuses", test.in, made)
		}
		if err != nil && len(err.Error()) > 400 {
			t.Errorf("ParseHostList(%.60q): an error of %d bytes", test.in, len(err.Error()))
		}
	}
}

func TestFormatHostList(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"", ""},
		{"n1", "n1"},
		{"n1 n2", "n[1-2]"},
		{"n10 n9 n2 n1 n3", "n[1-3,9-10]"},
		{"n1 n1", "n1"},
		{"n01 n02 n10", "n[01-02,10]"},
		{"n09 n10", "n[09-10]"},
		{"n98 n99 n100", "n[98-100]"},
		{"n099 n100", "n[099-100]"},
		{"n0 n1", "n[0-1]"},
		{"n00 n0", "n[0,00]"},
		{"x n2 n1 a", "a,n[1-2],x"},
		{"n n1 n2", "n,n[1-2]"},
		{"1 2", "[1-2]"},
		{"a1.x a2.x", "a1.x,a2.x"},
	} {
		got := FormatHostList(strings.Fields(test.in))
		if got != test.want {
			t.Errorf("FormatHostList(%q) = %q, want %q", test.in, got, test.want)
		}
		back, err := ParseHostList(got)
		want := strings.Fields(test.in)
		slices.Sort(want)
		slices.Sort(back)
		if err != nil || !slices.Equal(back, slices.Compact(want)) {
			t.Errorf("FormatHostList(%q) = %q reads back as %q, %v", test.in, got, back, err)
		}
	}
}

func TestValidHostName(t *testing.T) {
	for name, want := range map[string]bool{"n1": true, "a.b-c_d": true, "": false, "n[1]": false, "a/b": false} {
		if got := ValidHostName(name); got != want {
			t.Errorf("ValidHostName(%q) = %v", name, got)
		}
	}
}

func FuzzHostList(f *testing.F) {
	for _, seed := range []string{"", "n1", "n[1-3,07],x", "a[1-2]b[01-10]", "n[1-99999999999]", "[0-9]", "n[", "n]", "n[00-9]", "n099,n[100-101],n0100", "n,n1,n2"} {
		f.Add(seed)
	}
	f.Add(long)
	f.Add("a[0-9][0-9][0-9][0-9],[[1-2]]")
	f.Fuzz(func(t *testing.T, in string) {
		names, err := ParseHostList(in)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if len(names) > MaxHostListNames {
			t.Fatalf("%d names", len(names))
		}
		for _, name := range names {
			if !ValidHostName(name) {
				t.Fatalf("invalid name %q", name)
			}
		}
		text := FormatHostList(names)
		back, err := ParseHostList(text)
		if err != nil {
			if len(text) > MaxHostListBytes {
				return
			}
			t.Fatalf("%q is written as %q, which is refused: %v", in, text, err)
		}
		slices.Sort(names)
		slices.Sort(back)
		if !slices.Equal(names, back) {
			t.Fatalf("%q is written as %q, which reads as %q", in, text, back)
		}
		if again := FormatHostList(back); again != text {
			t.Fatalf("%q is written as %q, then as %q", in, text, again)
		}
	})
}

func ExampleFormatHostList() {
	fmt.Println(FormatHostList([]string{"n3", "n1", "n2", "gpu07"}))
	// Output: gpu07,n[1-3]
}
