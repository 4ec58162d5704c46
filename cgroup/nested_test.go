package cgroup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// below makes a group below g.
func below(t *testing.T, g *Group, name string) *Group {
	t.Helper()
	inner := New(g.Path()+"/"+name, Limits{})
	if err := inner.Create(); err != nil {
		t.Fatal(err)
	}
	return inner
}

// counting starts a process in g that counts, and answers what it has counted.
func counting(t *testing.T, g *Group) (counted func() int64) {
	t.Helper()
	counter := filepath.Join(t.TempDir(), "counter")
	start(t, g, `while :; do echo x >> `+counter+`; sleep 0.002; done`)
	return func() int64 {
		info, err := os.Stat(counter)
		if err != nil {
			return 0
		}
		return info.Size()
	}
}

// soon is a context for what should take no time.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// Groups that were made below a group belong to it.
func TestNestedFreezeAndKill(t *testing.T) {
	g := create(t, Limits{})
	deep, beside := counting(t, below(t, g, "a/b")), counting(t, below(t, g, "c"))
	eventually(t, "both count", func() bool { return deep() > 4 && beside() > 4 })
	if names, err := List(g.Path()); err != nil || !slices.Equal(names, []string{"a", "c"}) {
		t.Errorf("List: %v, %v", names, err)
	}
	if err := g.Freeze(soon(t)); err != nil {
		t.Fatal(err)
	}
	deepThen, besideThen := deep(), beside()
	time.Sleep(100 * time.Millisecond)
	if deep() != deepThen || beside() != besideThen {
		t.Errorf("counted while frozen: %d to %d, and %d to %d", deepThen, deep(), besideThen, beside())
	}
	if err := g.Kill(soon(t)); err != nil {
		t.Fatal(err)
	}
	if n := count(t, g); n != 0 {
		t.Errorf("%d processes after Kill", n)
	}
	if err := g.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(g.Path() + "/a/b"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Open of a group below after Remove: %v", err)
	}
}

func TestRemoveNestedBusy(t *testing.T) {
	g := create(t, Limits{})
	inner := below(t, g, "inner")
	start(t, inner, "exec sleep 600")
	below(t, g, "empty")
	if err := g.Remove(); !errors.Is(err, ErrBusy) {
		t.Errorf("Remove: %v, want ErrBusy", err)
	}
	for _, name := range []string{"inner", "empty"} {
		if _, err := Open(g.Path() + "/" + name); err != nil {
			t.Errorf("a refused Remove removed: %v", err)
		}
	}
	if n := count(t, inner); n != 1 {
		t.Errorf("%d processes, want 1", n)
	}
}

func TestNestedMemory(t *testing.T) {
	g := create(t, Limits{MemoryBytes: 16 << 20})
	requireController(t, "memory")
	inner := below(t, g, "inner")
	if code := run(t, inner, spareTheShell+tooLarge); code != 137 {
		t.Errorf("exit code %d, want 137: killed at the limit of the group above", code)
	}
	// v1 counts where the process was, v2 there and above.
	// How many it takes is the kernel's business: the first victim may be slow to die.
	for group, want := range map[*Group]bool{g: isV2(), inner: true} {
		if usage, err := group.Usage(); err != nil || usage.OOMKills > 0 != want {
			t.Errorf("%s: %d OOM kills, %v, want some: %t", group.Path(), usage.OOMKills, err, want)
		}
	}
}

// What has left a group is not touched with it.
func TestMovedOut(t *testing.T) {
	g := create(t, Limits{})
	other := below(t, New(parent, Limits{}), t.Name()+"-other")
	cmd := start(t, g, "exec sleep 600")
	t.Cleanup(func() {
		if err := errors.Join(other.Kill(soon(t)), other.Remove()); err != nil {
			t.Error(err)
		}
	})
	if err := other.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if n := count(t, g); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	if err := errors.Join(g.Signal(unix.SIGKILL), g.Kill(soon(t)), g.Remove()); err != nil {
		t.Error(err)
	}
	if n := count(t, other); n != 1 {
		t.Errorf("%d processes in the other group, want the one that moved", n)
	}
}

func TestEnterFrozen(t *testing.T) {
	g := create(t, Limits{})
	if err := g.Freeze(soon(t)); err != nil {
		t.Fatal(err)
	}
	counted := counting(t, g)
	time.Sleep(100 * time.Millisecond)
	if n := counted(); n != 0 {
		t.Errorf("counted %d in a frozen group", n)
	}
	if err := g.Thaw(soon(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it counts", func() bool { return counted() > 4 })
}
