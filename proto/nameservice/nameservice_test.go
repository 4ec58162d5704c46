package nameservice

import (
	"context"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"testing"
)

// TestFind: names and numbers of /etc/passwd are found there, and those of a directory
// service through getent.
func TestFind(t *testing.T) {
	programs := t.TempDir()
	script := "#!/bin/sh\ntest \"$1 $2\" = 'passwd --' || exit 3\n" +
		"case $3 in carol|70001) echo 'carol:*:70001:70001:Carol:/home/carol:/bin/bash' ;; odd) echo odd ;; Carol) echo 'carol:*:70001:70001' ;; 70002) echo 'else:*:1:1' ;; away) exit 1 ;; *) exit 2 ;; esac\n"
	if err := os.WriteFile(filepath.Join(programs, "getent"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	for word, want := range map[string]user.User{
		"root": {Username: "root", Uid: "0"}, "0": {Username: "root", Uid: "0"},
		"carol": {Username: "carol", Uid: "70001"}, "70001": {Username: "carol", Uid: "70001"},
		"Carol": {Username: "carol", Uid: "70001"},
	} {
		if got, err := Find(context.Background(), word); err != nil || *got != want {
			t.Errorf("%s: %+v, %v", word, got, err)
		}
	}
	var unknown user.UnknownUserError
	for _, word := range []string{"nobodyhere", "4294967294", "", "-x", "odd", "70002"} {
		if got, err := Find(context.Background(), word); !errors.As(err, &unknown) {
			t.Errorf("%q: %+v, %v", word, got, err)
		}
	}
	if _, err := Find(context.Background(), "away"); err == nil || errors.As(err, &unknown) {
		t.Errorf("a service that does not answer: %v", err)
	}
	t.Setenv("PATH", "/nonexistent")
	if _, err := Find(context.Background(), "carol"); err == nil || errors.As(err, &unknown) {
		t.Errorf("without getent: %v", err)
	}
}
