package console

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"testing"
)

// TestUserName: names and numbers of /etc/passwd are found there, and those of a
// directory service through getent.
func TestUserName(t *testing.T) {
	programs := t.TempDir()
	script := "#!/bin/sh\ntest \"$1 $2\" = 'passwd --' || exit 3\n" +
		"case $3 in carol|70001) echo 'carol:*:70001:70001:Carol:/home/carol:/bin/bash' ;; odd) echo odd ;; *) exit 2 ;; esac\n"
	if err := os.WriteFile(filepath.Join(programs, "getent"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	for word, want := range map[string]string{"root": "root", "0": "root", "carol": "carol", "70001": "carol"} {
		if got, err := UserName(word); got != want || err != nil {
			t.Errorf("%s: %q, %v", word, got, err)
		}
	}
	for _, word := range []string{"nobodyhere", "4294967294", "", "-x", "odd"} {
		var unknown user.UnknownUserError
		if got, err := UserName(word); !errors.As(err, &unknown) {
			t.Errorf("%q: %q, %v", word, got, err)
		}
	}
	t.Setenv("PATH", "/nonexistent")
	if _, err := UserName("carol"); err == nil {
		t.Error("carol is known without getent")
	}
}
