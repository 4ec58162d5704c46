package container

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The file systems of /dev and /run, and what hides parts of /proc and /sys, are not in an
// image, and a job that was moved, and moved again, finds them as they were, also from a
// directory in one of them. /dev/shm is in the image, with what the job keeps there.
func TestMovePlainMounts(t *testing.T) {
	b := newBed(t)
	s := b.start()
	turns := []string{filepath.Join(b.home(), "one"), filepath.Join(b.home(), "two")}
	look := `find /dev /run /proc/acpi /proc/scsi /sys/firmware -xdev -not -path /dev/mqueue -printf '%p %y %m %U:%G %l\n' 2>/dev/null | grep -v /dev/pts/ | sort; stat -c '%n %a %Y %h' /dev/shm/*; cat /dev/shm/kept; cat /dev/shm/hard; pwd; ls -id .. | wc -l; touch /dev/x /run/x /sys/firmware/x 2>&1; echo $? > /dev/null; echo end`
	s.must(order{Do: "start", Script: `#!/bin/bash
cd /dev
exec 7</run
echo kept > /dev/shm/kept; chmod 640 /dev/shm/kept; touch -d 2001-02-03 /dev/shm/kept; ln /dev/shm/kept /dev/shm/hard
look() { ` + look + `; }
look
until [ -e ` + turns[0] + ` ]; do sleep 0.05; done
look
until [ -e ` + turns[1] + ` ]; do sleep 0.05; done
look
`})
	ends := func(n int) func() bool {
		return func() bool { return strings.Count(b.read(), "\nend\n") == n }
	}
	for i, turn := range turns {
		eventually(t, "it has looked", ends(i+1))
		s = s.move()
		out, _ := exec.Command("sh", "-c", "find "+b.image("")+" -name \"*.img\"").Output(); t.Logf("%s", out)
		archives, err := filepath.Glob(b.image("*/criu/tmpfs-*"))
		must(t, err)
		if len(archives) != i+1 {
			t.Errorf("images hold archives %q, and only /dev/shm can be changed by the job", archives)
		}
		must(t, os.WriteFile(turn, nil, 0o644))
	}
	if r := s.must(order{Do: "wait"}); r.Code != 0 {
		t.Errorf("it ended with %d, signal %d", r.Code, r.Signal)
	}
	looks := strings.Split(b.read(), "\nend\n")
	for _, again := range looks[1 : len(looks)-1] {
		if again != looks[0] {
			t.Errorf("it found\n%s\nat first, and later\n%s", looks[0], again)
		}
	}
	for _, what := range []string{"/dev/ptmx l", "/dev/null ", "/dev/shm/kept 640 9811", "touch: cannot touch '/run/x': Permission denied"} {
		if !strings.Contains(looks[0], what) {
			t.Errorf("it did not find %q:\n%s", what, looks[0])
		}
	}
}
