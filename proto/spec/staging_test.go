package spec

import (
	"strings"
	"testing"
)

func TestStaging(t *testing.T) {
	sum := "#sha256=" + strings.Repeat("0a", 32)
	for text, want := range map[string]Staging{
		"https://h:8080/d/f:data/f":  {Source: "https://h:8080/d/f", Target: "data/f"},
		"s3://b/k" + sum + ":/tmp/k": {Source: "s3://b/k" + sum, Target: "/tmp/k"},
		"/home/a/set:/tmp/set":       {Source: "/home/a/set", Target: "/tmp/set"},
		"http://h/f?x=a:b:/tmp/f":    {Source: "http://h/f?x=a:b", Target: "/tmp/f"},
	} {
		if got, err := ParseStaging(text, false); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	if got, err := ParseStaging("once:s3://b/k:/shared/k", false); err != nil || got != (Staging{Source: "s3://b/k", Target: "/shared/k", Once: true}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := ParseStaging("out:https://h:8080/up/", true); err != nil || got != (Staging{Source: "out", Target: "https://h:8080/up/", Out: true}) {
		t.Errorf("%+v, %v", got, err)
	}
	for text, why := range map[string]string{
		"": "SOURCE:TARGET", "https://h/f": "names no target", "x:": "is empty", ":x": "is empty", "ftp://h/f:x": "by http://", "file:///etc/passwd:x": "by http://",
		"http://:x": "no URL", "https://u:p@h/f:x": "in the job's record", "s3://b:x": "nothing in it", "s3://b/k#md5=0:x": "64 digits", "a\nb:x": "control character",
		strings.Repeat("a", 5000) + ":x": "longer than",
	} {
		if got, err := ParseStaging(text, false); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%.40q: %+v, %v, and not %q", text, got, err, why)
		}
	}
}

func TestHere(t *testing.T) {
	one := Staging{Source: "submit://host/home/a/f:1", Target: "/tmp/in/"}
	host, file, is := one.Here()
	if err := CheckStaging(one); err != nil || host != "host" || file != "/home/a/f:1" || !is || one.HereTarget() != "/tmp/in/f:1" {
		t.Errorf("%v, %s, %s, %t, %s", err, host, file, is, one.HereTarget())
	}
	one.Target = "/tmp/x"
	if _, _, is := (Staging{Source: "/home/f"}).Here(); is || one.HereTarget() != "/tmp/x" {
		t.Error(is, one.HereTarget())
	}
	out := Staging{Source: "/tmp/r", Target: "submit://host/home/a/f", Out: true}
	if host, file, is := out.Here(); CheckStaging(out) != nil || host != "host" || file != "/home/a/f" || !is {
		t.Errorf("%v, %s, %s, %t", CheckStaging(out), host, file, is)
	}
	out.Source = "r"
	if err := CheckStaging(out); err == nil || !strings.Contains(err.Error(), "begins with /") {
		t.Error(err)
	}
}

func TestOneOfTheTwoIsAPath(t *testing.T) {
	if err := CheckStaging(Staging{Source: "http://h/f", Target: "s3://b/k"}); err == nil || !strings.Contains(err.Error(), "only the one outside") {
		t.Error(err)
	}
}

// TestStagingOnNodes: which nodes of a job copy, and what.
func TestStagingOnNodes(t *testing.T) {
	for _, c := range []struct {
		text          string
		out           bool
		first, second string // "" = it does not copy
	}{
		{"s3://b/set/:/tmp/set", false, "s3://b/set/:/tmp/set", "s3://b/set/:/tmp/set"},
		{"s3://b/set-%n/:/tmp/set", false, "s3://b/set-0/:/tmp/set", "s3://b/set-1/:/tmp/set"},
		{"once:s3://b/set:/shared/set", false, "once:s3://b/set:/shared/set", ""},
		{"/tmp/r:s3://b/r", true, "/tmp/r:s3://b/r", ""},
		{"/tmp/r-%n:s3://b/r", true, "/tmp/r-0:s3://b/r", ""},
		{"/tmp/r:https://h/a%20b/%N/r", true, "/tmp/r:https://h/a%20b/n1/r", "/tmp/r:https://h/a%20b/n2/r"},
		{"/tmp/r:/shared/%%N", true, "/tmp/r:/shared/%N", ""},
		{"/tmp/r:/shared/%%%n", true, "/tmp/r:/shared/%0", "/tmp/r:/shared/%1"},
	} {
		one, err := ParseStaging(c.text, c.out)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
		}
		for i, want := range []string{c.first, c.second} {
			got := ""
			if copied, makes := one.On([]string{"n1.lab", "n2"}[i], i); makes {
				got = copied.String()
			}
			if got != want {
				t.Errorf("%s on node %d: %q, and not %q", c.text, i, got, want)
			}
		}
	}
}

// FuzzStaging: what is accepted is written as it was read, and checked alike by the server.
func FuzzStaging(f *testing.F) {
	f.Add("https://h:8080/f#sha256=00:data/f", false)
	f.Add("out:s3://b/k", true)
	f.Fuzz(func(t *testing.T, text string, out bool) {
		got, err := ParseStaging(text, out)
		if err != nil {
			return
		}
		if got.String() != text || got.Out != out {
			t.Errorf("%q: %+v", text, got)
		}
		if err := CheckStaging(got); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
