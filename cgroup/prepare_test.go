package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestPrepare(t *testing.T) {
	g := create(t, Limits{})
	place := g.Path() + "/prepared/twice"
	for range 2 {
		info, err := Prepare(place)
		if err != nil {
			t.Fatal(err)
		}
		all, err := Detect()
		if err != nil || info.Version != all.Version || !slices.Contains(info.Controllers, "devices") {
			t.Errorf("prepared %+v, the machine has %+v, %v", info, all, err)
		}
		for _, controller := range info.Controllers {
			if !slices.Contains(all.Controllers, controller) {
				t.Errorf("prepared %s, which the machine lacks", controller)
			}
		}
	}
	if _, err := Open(place); err != nil {
		t.Error(err)
	}
	inner := below(t, New(place, Limits{}), "inner")
	requireController(t, "memory")
	if err := New(inner.Path(), Limits{MemoryBytes: 1 << 20}).Create(); err != nil {
		t.Errorf("a limit below the prepared group: %v", err)
	}
	if _, err := Prepare("/"); !errors.Is(err, ErrBadPath) {
		t.Errorf("Prepare of the root: %v", err)
	}
}

// A daemon that sits in the group that it was told to use, as in the group of
// its own systemd unit.
func TestPrepareOccupied(t *testing.T) {
	g := create(t, Limits{})
	if !isV2() {
		t.Skip("needs cgroup v2: v1 lets a group with processes have groups below")
	}
	cmd := start(t, g, "exec sleep 600")
	for _, place := range []string{g.Path(), g.Path() + "/below", g.Path() + "/below/twice"} {
		_, err := Prepare(place)
		if !errors.Is(err, ErrOccupied) || !strings.Contains(err.Error(), "cgroup "+g.Path()+" has processes of its own, "+strconv.Itoa(cmd.Process.Pid)+" (s") {
			t.Errorf("Prepare of %s: %v", place, err)
		}
	}
	if kind, handed := control(t, g, "", "cgroup.type"), control(t, g, "", "cgroup.subtree_control"); kind != "domain" || handed != "" {
		t.Errorf("the group is now %q and hands on %q", kind, handed)
	}
	if names, err := List(g.Path()); err != nil || len(names) > 0 {
		t.Errorf("made %v, %v", names, err)
	}

	// What is threaded is closed to limits of memory too.
	if err := g.Kill(soon(t)); err != nil {
		t.Fatal(err)
	}
	directories, err := g.present()
	if err != nil {
		t.Fatal(err)
	}
	threaded := filepath.Join(directories[""], "threaded")
	if err := errors.Join(os.Mkdir(threaded, 0o755), writeFile(threaded, "cgroup.type", "threaded")); err != nil {
		t.Fatal(err)
	}
	if _, err := Prepare(g.Path() + "/threaded/below"); !errors.Is(err, ErrOccupied) {
		t.Errorf("below a threaded group: %v", err)
	}
}
