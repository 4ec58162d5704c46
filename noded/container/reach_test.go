package container

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What was removed while CRIU restored was not what the user finds, whoever's it is:
// he can remove what he may not read.
func TestRemovedMeanwhile(t *testing.T) {
	for _, uid := range []uint32{testUID, HostIDBase, 4999} {
		for _, own := range []bool{false, true} {
			h := held{path: "/home/file", own: own, stat: unix.Stat_t{Uid: uid}}
			if err := h.check(nil, testUID); (err == nil) != (own && uid != 4999) {
				t.Errorf("of user %d, in a file system of its own: %v: %v", uid, own, err)
			}
		}
	}
}

// Who may write in a directory above can put something else in the place of what a
// job has open. CRIU opens it, as a root to whom nothing in the container is closed;
// the job does not get it.
func TestRestoreReachesNoFurther(t *testing.T) {
	b := newBed(t)
	shadow, err := os.Stat("/etc/shadow")
	must(t, err)
	home := b.home()
	must(t, os.WriteFile(home+"/data", bytes.Repeat([]byte("x"), int(shadow.Size())), 0o644))
	for _, name := range []string{"work", "work/deep", "list"} {
		must(t, os.Mkdir(home+"/"+name, 0o755))
		must(t, os.Chown(home+"/"+name, testUID, testUID))
	}
	// CRIU compares size and mode: the job's are those of what it is after.
	for name, like := range map[string]string{"data": "/etc/shadow", "log": "/etc/shadow", "list": "/root", "work/deep": "/root"} {
		info, err := os.Stat(like)
		must(t, err)
		if name == "log" {
			must(t, os.WriteFile(home+"/log", nil, 0o600))
		}
		must(t, os.Chmod(home+"/"+name, info.Mode()))
		must(t, os.Chown(home+"/"+name, testUID, testUID))
	}
	s := b.start()
	s.must(order{Do: "start", Script: fmt.Sprintf(`#!/bin/bash
exec 5<data 6>>log 7<list
cd work/deep
echo ready
while ! test -e %s/go; do sleep 0.05; done
head -c 1 <&5; echo more >&6; pwd
`, home)})
	eventually(t, "it is ready", func() bool { return strings.Contains(b.read(), "ready") })
	image, _ := s.save()
	s.must(order{Do: "end"})
	for _, c := range []struct{ what, name, to string }{
		{"a file of the same size", "data", "/etc/shadow"}, {"a file that is appended to", "log", "/etc/shadow"},
		{"a directory that it reads", "list", "/root"}, {"the work directory", "work/deep", "/root"},
		{"its own file, by a link", "data", home + "/other"},
	} {
		path, aside := home+"/"+c.name, home+"/aside"
		must(t, os.Rename(path, aside))
		if c.to == home+"/other" {
			must(t, os.WriteFile(c.to, bytes.Repeat([]byte("y"), int(shadow.Size())), 0o600)) // root's
			must(t, os.Chmod(c.to, shadow.Mode()))
		}
		must(t, os.Symlink(c.to, path))
		next := b.start()
		if r := next.do(order{Do: "restore", Image: image}); r.Error == "" {
			t.Errorf("%s: it was restored with what is at %s", c.what, c.to)
			next.must(order{Do: "end"})
		} else if !isAny(r, "misfit") {
			t.Errorf("%s: %s", c.what, r.Error)
		}
		must(t, os.Remove(path))
		must(t, os.Rename(aside, path))
	}
	next := b.start()
	next.must(order{Do: "restore", Image: image})
	must(t, os.WriteFile(home+"/go", nil, 0o644))
	if r := next.must(order{Do: "wait"}); r.Code != 0 || !strings.HasSuffix(b.read(), "ready\nx"+home+"/work/deep\n") {
		t.Errorf("restored as it was: it ended with %d, and printed %q", r.Code, b.read())
	}
	if text, err := os.ReadFile(home + "/log"); err != nil || string(text) != "more\n" {
		t.Errorf("its log: %q, %v", text, err)
	}
}
