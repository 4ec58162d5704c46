package container

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

// A directory is bound, found without, or refused by where it lies.
func TestDecide(t *testing.T) {
	const rootMount, dataMount, projectMount = 1, 2, 3
	rules := &ownRules{
		user: User{UID: 1000, Home: "/home/ann"}, rootID: rootMount, hidden: []string{"/data/private", "/srv/part"}, binds: []string{"/bound"},
		mounts: []hostMount{{id: dataMount, path: "/scratch"}, {id: 5, path: "/usr", system: true}},
		shown:  []userpath.Place{{Path: "/home/ann", Mount: rootMount}},
	}
	const none, refused = "", "refused"
	for _, c := range []struct {
		path, at string // "" = the same
		mount    int
		kind     string
		closed   bool // not writable
		want     string
	}{
		{path: "/", want: none}, {path: "/tmp", want: none}, {path: "/tmp/x", want: "/tmp/x"}, {path: "/tmp/x", closed: true, want: "/tmp/x"},
		{path: "/home/ann", want: none}, {path: "/home/ann/x", want: none}, {path: "/home/annette", want: "/home/annette"},
		{path: "/home/ann/x", mount: projectMount, want: "/home/ann/x"}, {path: "/bound/x", want: none}, {path: "/etc", want: none},
		{path: "/usr/share", closed: true, want: none}, {path: "/usr/share", mount: 5, closed: true, want: none},
		{path: "/srv/project", want: "/srv/project"}, {path: "/srv/project", closed: true, mount: projectMount, want: "/srv/project"},
		{path: "/scratch/x", mount: dataMount, want: none}, {path: "/proc/1", kind: "proc", want: none}, {path: "/dev/shm/x", want: none},
		{path: "/run/gleaner/x", want: none}, {path: "/run", want: none}, {path: "/run/systemd", want: refused}, {path: "/run/user/1001/x", want: refused},
		{path: "/run/user/1000/x", want: "/run/user/1000/x"}, {path: "/data/private", want: refused}, {path: "/data/private/x", want: refused},
		{path: "/data", want: "/data"}, // what is hidden in it is hidden after that
		// Through links.
		{path: "/var/tmp/h", at: "/", want: refused}, {path: "/tmp/h", at: "/var", want: refused}, {path: "/var/tmp/h", at: "/data", want: refused},
		{path: "/var/tmp/h", at: "/data/private/x", want: refused}, {path: "/var/tmp/h", at: "/run/systemd", want: refused},
		{path: "/var/tmp/h", at: "/proc", kind: "proc", want: refused}, {path: "/var/tmp/h", at: "/mnt/odd", kind: "devtmpfs", want: refused},
		{path: "/var/tmp/h", at: "/mnt/odd", kind: "cgroup2", want: refused}, {path: "/var/tmp/h", at: "/tmp", want: refused},
		{path: "/var/tmp/h", at: "/home/ann/x", want: "/var/tmp/h"}, {path: "/var/tmp/h", at: "/scratch/x", mount: dataMount, want: "/var/tmp/h"},
		{path: "/dev/shm/h", at: "/srv/project", want: refused}, {path: "/srv/l", at: "/", want: none}, {path: "/srv/l", at: "/run/systemd", want: refused},
		{path: "/srv/l", at: "/tmp/x", want: "/tmp/x"}, {path: "/srv/l", at: "/srv/project", want: "/srv/project"}, {path: "/srv/l", at: "/data/private", want: refused},
	} {
		if c.at == "" {
			c.at = c.path
		}
		place := userpath.Place{Path: c.at, Mount: max(c.mount, rootMount), Type: c.kind}
		d := &placed{Directory: &userpath.Directory{Path: c.path, Writable: !c.closed}, place: place}
		err := rules.placeDirectory(d)
		if chosen := new(ChosenError); (c.want == refused) != errors.As(err, &chosen) || err == nil && d.target != c.want {
			t.Errorf("%s, which lies at %s in mount %d: %q, %v, want %q", c.path, c.at, place.Mount, d.target, err, c.want)
		}
	}
}

// What cannot be mounted because of what the user chose is the job's trouble.
func TestNamesTooLong(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: clones mounts")
	}
	dir := t.TempDir()
	top, err := os.OpenFile(dir, unix.O_PATH, 0)
	must(t, err)
	defer top.Close()
	s := new(stage)
	points := &mountPoints{s: s, own: map[int]bool{}, tops: []topDir{{"/", top}}}
	if _, err := points.open("/a/b", true, unix.RESOLVE_NO_SYMLINKS); err == nil {
		t.Error("a mount point was made in a file system of the host's")
	}
	must(t, points.mayMake(top))
	s.uids, err = mapIDs([]uint32{1000})
	must(t, err)
	s.gids = s.uids
	fd, err := points.open("/a/b", true, unix.RESOLVE_NO_SYMLINKS)
	must(t, err)
	unix.Close(fd)
	must(t, os.Symlink("/a", dir+"/link"))
	if _, err := points.open("/link/b/c", true, unix.RESOLVE_NO_SYMLINKS); !errors.Is(err, unix.ELOOP) {
		t.Errorf("through a link: %v", err)
	}
}
