package container

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
)

func must(t *testing.T, err error) {
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
	var many []uint32
	for i := range uint32(400) {
		many = append(many, 2*i+1)
	}
	if _, err := mapIDs(many); !errors.Is(err, ErrUser) {
		t.Errorf("400 groups: %v", err)
	}
}

// The kernel takes the longest map that mapIDs lets through.
func TestUserNamespace(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: maps ids of others")
	}
	var groups []uint32
	for n := uint32(1); ; n++ {
		more, err := mapIDs(append(slices.Clone(groups), 3*n))
		if err != nil {
			break
		}
		groups = append(groups, 3*n)
		_ = more
	}
	if len(groups) < 60 {
		t.Errorf("only %d groups have room", len(groups))
	}
	uids, err := mapIDs([]uint32{4242})
	must(t, err)
	gids, err := mapIDs(groups)
	must(t, err)
	ns, err := userNamespace(uids, gids)
	must(t, err)
	ns.Close()
}

func TestSelectSubmounts(t *testing.T) {
	var infos []*mountinfo.Info
	for path, fs := range map[string]string{
		"/": "ext4", "/usr": "ext4", "/usr/local": "nfs4", "/var": "xfs", "/var/lib/docker/overlay2/x/merged": "overlay",
		"/var/lib/docker": "xfs", "/var/lib/gleaner": "ext4", "/var/tmp": "ext4", "/home": "ext4", "/opt": "tmpfs",
		"/etc/x": "fuse.sshfs", "/proc": "proc", "/usrlocal": "ext4", "/opt/sw": "nfs4",
	} {
		infos = append(infos, &mountinfo.Info{Mountpoint: path, FSType: fs})
	}
	// A tmpfs over a real one hides it.
	infos = append(infos, &mountinfo.Info{Mountpoint: "/etc/covered", FSType: "ext4"}, &mountinfo.Info{Mountpoint: "/etc/covered", FSType: "tmpfs"})
	got := selectSubmounts(infos, []string{"/var/lib/gleaner"})
	if want := []string{"/opt/sw", "/usr", "/usr/local", "/var"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
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
	filter, err := seccompFilter()
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
