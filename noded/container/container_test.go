package container

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestMapIDs(t *testing.T) {
	const base = HostIDBase
	for _, c := range []struct {
		own  []uint32
		want []configs.IDMap
	}{
		{[]uint32{1000}, []configs.IDMap{{ContainerID: 0, HostID: base, Size: 1000}, {ContainerID: 1000, HostID: 1000, Size: 1}, {ContainerID: 1001, HostID: base + 1001, Size: 64535}}},
		{[]uint32{0}, []configs.IDMap{{ContainerID: 0, HostID: 0, Size: 1}, {ContainerID: 1, HostID: base + 1, Size: 65535}}},
		{[]uint32{65535, 200000, 200000}, []configs.IDMap{{ContainerID: 0, HostID: base, Size: 65535}, {ContainerID: 65535, HostID: 65535, Size: 1}, {ContainerID: 200000, HostID: 200000, Size: 1}}},
		{[]uint32{11, 10}, []configs.IDMap{{ContainerID: 0, HostID: base, Size: 10}, {ContainerID: 10, HostID: 10, Size: 2}, {ContainerID: 12, HostID: base + 12, Size: 65524}}},
	} {
		got, err := mapIDs(c.own)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("mapIDs(%v) = %v, %v, want %v", c.own, got, err, c.want)
		}
	}
	if hostID([]configs.IDMap{{ContainerID: 5, HostID: 50, Size: 2}}, 6) != 51 {
		t.Error("hostID is wrong")
	}
	for _, id := range []uint32{base, base + 65535} {
		if _, err := mapIDs([]uint32{id}); !errors.Is(err, ErrUser) {
			t.Errorf("id %d: %v", id, err)
		}
	}
	for _, c := range []struct {
		groups, apart uint32
		fits          bool
	}{{200, 2, true}, {200, 317, true}, {250, 256, true}, {180, 70001, true}, {250, 70001, false}, {400, 2, false}} {
		var own []uint32
		for i := range c.groups {
			own = append(own, c.apart*i+1)
		}
		for name, mapping := range map[string]func([]uint32) ([]configs.IDMap, error){"container": mapIDs, "mounts": mapMountIDs} {
			extents, err := mapping(own)
			if !c.fits {
				if !errors.Is(err, ErrUser) {
					t.Errorf("%d groups: %v", c.groups, err)
				}
				continue
			}
			if err != nil || hostID(extents, 0) != HostIDBase || len(extents) > maxExtents || mapBytes(extents) >= maxMapBytes {
				t.Errorf("%s: %d groups, %d apart: %d extents, %d bytes, %v", name, c.groups, c.apart, len(extents), mapBytes(extents), err)
			}
			for _, id := range own {
				if hostID(extents, int64(id)) != int(id) {
					t.Errorf("%s: %d groups: group %d is not in place", name, c.groups, id)
				}
			}
		}
	}
}

// Idmapped mounts leave nobody out but those who live where containers put
// others.
func TestMapMountIDs(t *testing.T) {
	extents, err := mapMountIDs([]uint32{1000, 70000, 3_000_000_000})
	must(t, err)
	for id, want := range map[int64]int{
		0: HostIDBase, 1000: 1000, 1001: HostIDBase + 1001, 65536: 65536, 70000: 70000, 70001: 70001,
		HostIDBase - 1: HostIDBase - 1, HostIDBase: -1, HostIDBase + 65536: HostIDBase + 65536, 4_294_967_294: 4_294_967_294,
	} {
		if got := hostID(extents, id); got != want {
			t.Errorf("id %d is %d, want %d", id, got, want)
		}
	}
	outside := map[int64]bool{}
	for _, e := range extents {
		if outside[e.HostID] {
			t.Errorf("two ranges begin at %d", e.HostID)
		}
		outside[e.HostID] = true
	}
}

// The kernel takes the longest map that mapIDs lets through.
func TestUserNamespace(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: maps ids of others")
	}
	var groups []uint32
	for n := uint32(1); ; n++ {
		if _, err := mapMountIDs(append(slices.Clone(groups), 331*n)); err != nil {
			break
		}
		groups = append(groups, 331*n)
	}
	if len(groups) < 200 {
		t.Errorf("only %d groups have room", len(groups))
	}
	uids, err := mapIDs([]uint32{4242})
	must(t, err)
	for _, mapping := range []func([]uint32) ([]configs.IDMap, error){mapIDs, mapMountIDs} {
		gids, err := mapping(groups)
		must(t, err)
		ns, err := userNamespace(uids, gids)
		must(t, err)
		ns.Close()
	}
}

func TestBindsWorkDir(t *testing.T) {
	dir := t.TempDir()
	file, err := os.Open(dir)
	must(t, err)
	defer file.Close()
	spec := &Spec{User: User{Home: "/home/ann"}, Binds: []string{"/data"}}
	for _, c := range []struct {
		path     string
		writable bool
		want     bool
	}{
		{"/", true, false}, {"/tmp", true, false}, {"/tmp/x", true, true}, {"/tmp/x", false, true}, {"/var/tmp", true, false},
		{"/home/ann", true, false}, {"/home/ann/x", true, false}, {"/home/annette", true, true}, {"/data/x", true, false},
		{"/etc", true, false}, {"/usr/share", false, false}, {"/srv/project", true, true}, {"/proc/1", true, false},
		{"/dev/shm/x", true, false}, {"/run/gleaner/x", true, false}, {"/usr/", true, false},
	} {
		w := &WorkDir{Path: c.path, File: file, Writable: c.writable}
		if got := new(stage).bindsWorkDir(w, spec, true); got != c.want {
			t.Errorf("%s, writable %v: %v, want %v", c.path, c.writable, got, c.want)
		}
	}
}

func TestMountOrder(t *testing.T) {
	spec := &Spec{HideDirs: []string{"/usr", "/tmp/state", "/nonexistent"}}
	mounts := mountList(hiddenDirs(spec), map[string]string{
		"/run/gleaner/ginit": "a", "/run/gleaner": "b", "/usr/share": "c", "/dev/gpu0": "d", "/tmp": "e", "/tmp/w": "f",
	})
	position := map[string]int{}
	for i, m := range mounts {
		position[m.Destination] = i
	}
	for _, pair := range [][2]string{
		{"/run", "/run/gleaner"}, {"/run/gleaner", "/run/gleaner/ginit"}, {"/usr", "/usr/share"}, {"/dev", "/dev/gpu0"},
		{"/dev", "/dev/pts"}, {"/tmp", "/tmp/w"},
	} {
		if position[pair[0]] >= position[pair[1]] {
			t.Errorf("%s is mounted after %s", pair[0], pair[1])
		}
	}
	for _, path := range []string{"/tmp/state", "/nonexistent"} {
		if _, ok := position[path]; ok {
			t.Errorf("%s is hidden, where nothing is", path)
		}
	}
}

func TestAddAccount(t *testing.T) {
	dir := t.TempDir()
	source, target := filepath.Join(dir, "passwd"), filepath.Join(dir, "copy")
	must(t, os.WriteFile(source, []byte("root:x:0:0::/root:/bin/sh"), 0o644))
	if made, err := addAccount(source, target, 0, "never"); made || err != nil {
		t.Errorf("for a known user: %v, %v", made, err)
	}
	if made, err := addAccount(source, target, 7, "ann:x:7:7::/:"); !made || err != nil {
		t.Errorf("for an unknown user: %v, %v", made, err)
	}
	if data, _ := os.ReadFile(target); string(data) != "root:x:0:0::/root:/bin/sh\nann:x:7:7::/:\n" {
		t.Errorf("it holds %q", data)
	}
	for text, want := range map[string]string{"ann": "ann", "": "user7", "a:b": "user7", "a\nroot:x:0": "user7"} {
		if got := field(text, "user", 7); got != want {
			t.Errorf("field(%q) = %q, want %q", text, got, want)
		}
	}
}

// What is opened as a user is opened with the user's rights only, and the
// other threads keep theirs.
func TestAsUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: becomes other users")
	}
	dir, err := os.MkdirTemp("", "gleaner-asuser-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	group := filepath.Join(dir, "group")
	must(t, os.Mkdir(group, 0o770))
	must(t, os.Chown(group, 0, 4244))
	must(t, os.Chmod(group, 0o770))
	private := filepath.Join(dir, "private")
	must(t, os.WriteFile(private, nil, 0o600))

	u := User{UID: 4242, GID: 4243, Groups: []uint32{4243, 4244}}
	f, err := OpenAs(u, filepath.Join(group, "new"), os.O_CREATE|os.O_WRONLY, 0o077)
	must(t, err)
	defer f.Close()
	var stat unix.Stat_t
	must(t, unix.Fstat(int(f.Fd()), &stat))
	if stat.Uid != 4242 || stat.Gid != 4243 || stat.Mode&0o777 != 0o600 {
		t.Errorf("its file is %d:%d mode %#o", stat.Uid, stat.Gid, stat.Mode)
	}
	if _, err := OpenAs(u, private, os.O_RDONLY, 0); !errors.Is(err, unix.EACCES) {
		t.Errorf("root's file: %v", err)
	}
	if _, err := OpenAs(User{UID: 4242, GID: 4243}, filepath.Join(group, "other"), os.O_CREATE|os.O_WRONLY, 0); !errors.Is(err, unix.EACCES) {
		t.Errorf("without the group: %v", err)
	}
	w, err := OpenWorkDir(u, group)
	must(t, err)
	w.File.Close()
	if !w.Writable {
		t.Error("a directory of its group is not writable")
	}
	if w, err = OpenWorkDir(u, dir); err != nil || w.Writable {
		t.Errorf("root's directory: %v, %v", w, err)
	}
	w.File.Close()
	if root, err := os.Open(private); err != nil {
		t.Errorf("root lost its rights: %v", err)
	} else {
		root.Close()
	}
}

// A directory that went away after it was opened is the job's trouble, and
// told apart from the node's.
func TestDeletedTree(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: clones mounts")
	}
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	must(t, os.Mkdir(gone, 0o755))
	file, err := os.Open(gone)
	must(t, err)
	defer file.Close()
	must(t, os.Remove(gone))
	s := &stage{path: dir}
	defer s.close()
	tree, err := s.clone(gone, file, cloneOptions{})
	if err == nil {
		_, err = s.attach(tree)
	}
	s.path = "" // nothing is mounted there
	if !errors.Is(err, ErrDeleted) {
		t.Errorf("a deleted directory: %v", err)
	}
}

func TestAllowedDevices(t *testing.T) {
	allowed := AllowedDevices([]Device{{Path: "/dev/x", Type: 'c', Major: 195, Minor: 3, Access: "rw"}})
	for _, d := range allowed {
		if strings.Contains(d.Access, "m") {
			t.Errorf("device %+v may be made", d)
		}
	}
	if last := allowed[len(allowed)-1]; last != (cgroup.Device{Type: 'c', Major: 195, Minor: 3, Access: "rw"}) {
		t.Errorf("its own device is %+v", last)
	}
}

// The filter is there, and refuses what a container must not do.
func TestSeccompFilter(t *testing.T) {
	filter, err := seccompConfig()
	must(t, err)
	if filter == nil || filter.DefaultAction != configs.Errno {
		t.Fatalf("filter %+v", filter)
	}
	for _, call := range filter.Syscalls {
		if call.Action == configs.Allow && len(call.Args) == 0 && slices.Contains([]string{"mount", "bpf", "kexec_load", "setns", "init_module"}, call.Name) {
			t.Errorf("%s is allowed", call.Name)
		}
	}
}

// On the host's own mounts nothing is started.
func TestRefuseHostNamespace(t *testing.T) {
	if err := Isolate(); !errors.Is(err, ErrHostNamespace) {
		t.Fatalf("Isolate: %v", err)
	}
}
