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

// FuzzStaging: what is accepted is written as it was read, and checked alike by the server.
func FuzzStaging(f *testing.F) {
	f.Add("https://h:8080/f#sha256=00:data/f", false)
	f.Add("out:s3://b/k", true)
	f.Fuzz(func(t *testing.T, text string, out bool) {
		got, err := ParseStaging(text, out)
		if err != nil {
			return
		}
		if got.Source+":"+got.Target != text || got.Out != out {
			t.Errorf("%q: %+v", text, got)
		}
		if err := CheckStaging(got); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
