package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The file systems of /dev and /run, and what hides parts of /proc and /sys, are not in an
// image, and a job that was moved, and moved again, finds them as they were, also from a
// directory in one of them. /dev/shm is in the image, with what the job keeps there.
func TestMovePlainMounts(t *testing.T) {
	b := newBed(t)
	s := b.start()
	turns := []string{filepath.Join(b.home(), "one"), filepath.Join(b.home(), "two")}
	look := `find /dev /run /proc/acpi /proc/scsi /sys/firmware -xdev -not -path /dev/mqueue -printf '%p %y %m %U:%G %l\n' 2>/dev/null | grep -v /dev/pts/ | sort; stat -c '%n %a %Y %h' /dev/shm/*; cat /dev/shm/kept; cat /dev/shm/hard; pwd; watches; touch /dev/x /run/x /sys/firmware/x 2>&1; echo end`
	s.must(order{Do: "start", Script: `#!/bin/bash
cd /dev
exec 7</run
perl -e '$fd = syscall(294, 0); for ("/run", "/dev") { my $p = $_; syscall(254, $fd, $p, 0x100) } sleep 1 while 1' & # inotify
watches() { cat /proc/$!/fdinfo/* 2>/dev/null | grep -c ^inotify; }
until [ $(watches) = 2 ]; do sleep 0.05; done
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
	checkRemembered(b)
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

// checkRemembered makes sure that CRIU did not try out the kernel again.
func checkRemembered(b *bed) {
	for _, name := range []string{"dump.log", "restore.log"} {
		log, err := os.ReadFile(b.image(name))
		must(b.t, err)
		var fs unix.Statfs_t
		if err := unix.Statfs("/dev/shm", &fs); err == nil && fs.Type == unix.TMPFS_MAGIC && !strings.Contains(string(log), "Loaded kdat cache from ") {
			b.t.Errorf("by its %s, CRIU tried out once more what the kernel can do", name)
		}
	}
}

// A job of root's writes to /run and /dev as its owner, before and after it was moved. What
// it writes there is in each image, and is bounded as before.
func TestMoveWrittenPlainMounts(t *testing.T) {
	b := newBed(t)
	must(t, os.Chown(b.home(), 0, 0))
	s := b.start()
	turns := []string{filepath.Join(b.home(), "one"), filepath.Join(b.home(), "two")}
	s.must(order{Do: "start", Root: true, Script: `#!/bin/bash
look() { cat /run/* /dev/kept 2>/dev/null; stat -f -c '%n %b' /run /dev; echo end; }
look
until [ -e ` + turns[0] + ` ]; do sleep 0.05; done
echo first > /run/first; echo dev > /dev/kept
exec 7> /run/gone; rm /run/gone; echo removed >&7
look
until [ -e ` + turns[1] + ` ]; do sleep 0.05; done
echo second > /run/second
cat /proc/self/fd/7
look
`})
	for i, turn := range turns {
		eventually(t, "it has looked", func() bool { return strings.Count(b.read(), "end\n") == i+1 })
		image, _ := s.save()
		s.must(order{Do: "end"})
		s = b.start()
		s.must(order{Do: "restore", Root: true, Image: image})
		must(t, os.WriteFile(turn, nil, 0o644))
	}
	if r := s.must(order{Do: "wait"}); r.Code != 0 {
		t.Errorf("it ended with %d, signal %d", r.Code, r.Signal)
	}
	const sizes = "/run 16384\n/dev 16\nend\n"
	if got, want := b.read(), sizes+"first\ndev\n"+sizes+"removed\nfirst\nsecond\ndev\n"+sizes; got != want {
		t.Errorf("it found\n%s\nnot\n%s", got, want)
	}
}

// What is not as Restore would make it is left to CRIU, whoever put it there.
func TestPlainCheck(t *testing.T) {
	for name, put := range map[string]func(run string) error{
		"":          func(string) error { return nil },
		"file":      func(run string) error { return os.WriteFile(run+"/systemd/file", nil, 0o644) },
		"directory": func(run string) error { return os.Mkdir(run+"/empty", 0o755) },
		"link":      func(run string) error { return os.Symlink("/proc/self/fd", run+"/fd") },
		"mode":      func(run string) error { return os.Chmod(run+"/systemd", 0o775) },
		"owner":     func(run string) error { return os.Chown(run+"/systemd", 4242, 4242) },
	} {
		root := t.TempDir()
		run := filepath.Join(root, "run")
		must(t, os.MkdirAll(run+"/systemd/resolve/file", 0o755))
		for _, dir := range []string{run, run + "/systemd"} {
			must(t, os.Chmod(dir, 0o755))
		}
		must(t, put(run))
		file, err := os.Open(root)
		must(t, err)
		defer file.Close()
		p := plainCheck{root: file, uid: os.Getuid(), gid: os.Getgid(), mounts: []string{"/run/systemd/resolve"}, links: deviceLinks()}
		if plain, err := p.holds("/run"); err != nil || plain != (name == "") {
			t.Errorf("%q: plain %v, %v", name, plain, err)
		}
	}
}
