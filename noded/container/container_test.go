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
		ns, err := userNamespace(uids, gids, namespaceOwner("1.1"), boundsInside(false))
		must(t, err)
		ns.Close()
	}
}

func TestMountOrder(t *testing.T) {
	mounts := mountList(map[string]string{
		"/run/gleaner/ginit": "a", "/run/gleaner": "b", "/usr/share": "c", "/dev/gpu0": "d", "/tmp": "e", "/tmp/w": "f", "/sys/x": "g",
	}, true)
	position := map[string]int{}
	for i, m := range mounts {
		position[m.Destination] = i
	}
	for _, pair := range [][2]string{
		{"/run", "/run/gleaner"}, {"/run/gleaner", "/run/gleaner/ginit"}, {"/dev", "/dev/gpu0"},
		{"/dev", "/dev/pts"}, {"/tmp", "/tmp/w"}, {"/sys", "/sys/x"},
	} {
		if position[pair[0]] >= position[pair[1]] {
			t.Errorf("%s is mounted after %s", pair[0], pair[1])
		}
	}
}

func TestAddAccount(t *testing.T) {
	dir := t.TempDir()
	source, target := filepath.Join(dir, "passwd"), filepath.Join(dir, "copy")
	must(t, os.WriteFile(source, []byte("root:x:0:0::/root:/bin/sh"), 0o644))
	if made, err := addAccount(readAccounts, source, target, 0, "never"); made || err != nil {
		t.Errorf("for a known user: %v, %v", made, err)
	}
	if made, err := addAccount(readAccounts, source, target, 7, "ann:x:7:7::/:"); !made || err != nil {
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
	filter, err := seccompConfig(false)
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
