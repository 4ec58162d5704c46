package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// standInMajor is one that the device rules of no container allow.
const standInMajor = 7

// standIn makes the device file of a stand-in GPU, and answers it as a container
// that shows it under a name.
func (b *bed) standIn(minor uint32, shown string) Device {
	b.t.Helper()
	path := filepath.Join(b.dir, fmt.Sprintf("device-%d", minor))
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(standInMajor, minor))); err != nil && !errors.Is(err, os.ErrExist) {
		b.t.Fatal(err)
	}
	must(b.t, os.Chmod(path, 0o666))
	return Device{Path: path, ContainerPath: shown, Type: 'c', Major: standInMajor, Minor: int64(minor), Access: "rw", Companion: strings.HasSuffix(shown, "ctl")}
}

// askedDevices tells, for each file ask1, ask2, …, all devices that it finds by a
// name that GPUs have, their numbers, and whether they open. No driver need be there
// for one that opens: without it the kernel has no such device.
const askedDevices = `#!/bin/bash
for n in 1 2 3 4 5 6; do
	until test -e ~/ask$n; do sleep 0.02; done
	for f in /dev/[^fmnprstuz]* ~/gpu-*; do
		test -c $f || continue
		if e=$( (exec 3<>$f) 2>&1 ); then e=opens; fi
		case $e in *permitted) e=closed;; *) e=opens;; esac
		echo "$n $f $((0x$(stat -c %T $f))) $e"
	done
	echo "$n all"
done
`

// TestMoveDevices: what a job sees as its devices is what it saw first, however often
// it moves and whatever files, numbers and order the devices of the nodes have; and
// behind each name is a device that it was given there, which it can open, as none of
// the others.
func TestMoveDevices(t *testing.T) {
	b := newBed(t)
	type node []Device
	ctl := func(minor uint32) Device { return b.standIn(minor, "/dev/gpuctl") }
	nodes := []node{
		{b.standIn(10, "/dev/gpu0"), b.standIn(11, "/dev/gpu1"), ctl(12)},
		{b.standIn(21, "/dev/gpu1"), b.standIn(20, "/dev/gpu0"), ctl(22)},                                // swapped
		{b.standIn(31, "/dev/gpu1"), b.standIn(35, "/dev/gpu5"), ctl(32)},                                // one at the other's place
		{b.standIn(47, "/dev/accel/7"), b.standIn(41, "/dev/a"), b.standIn(49, "/dev/bctl"), ctl(42)},    // nothing like it; a companion more
		{b.standIn(11, "/dev/gpu1"), b.standIn(13, "/dev/gpu3"), ctl(12), b.standIn(14, "/dev/gpuxctl")}, // the first node, other GPUs
		{b.standIn(10, "/dev/gpu0"), b.standIn(11, "/dev/gpu1"), ctl(12)},
	}
	seen := [][]uint32{{10, 11, 12}, {20, 21, 22}, {35, 31, 32}, {47, 41, 42}, {13, 11, 12}, {10, 11, 12}}
	foreign := b.standIn(63, "")
	must(t, unix.Mknod(filepath.Join(b.home(), "gpu-63"), unix.S_IFCHR|0o666, int(unix.Mkdev(standInMajor, 63))))
	must(t, os.Chmod(filepath.Join(b.home(), "gpu-63"), 0o666))

	s := b.start()
	s.must(order{Do: "start", Devices: nodes[0], Private: true, Script: askedDevices})
	for i := range nodes {
		if i > 0 {
			image, r := s.save()
			want := []checkpoint.Device{{Path: "/dev/gpu0"}, {Path: "/dev/gpu1"}, {Path: "/dev/gpuctl", Companion: true}}
			if !slices.Equal(r.Manifest.Devices, want) {
				t.Errorf("move %d: the image has the devices %v", i, r.Manifest.Devices)
			}
			s.must(order{Do: "end"})
			s = b.start()
			s.must(order{Do: "restore", Image: image, Devices: nodes[i], Private: true, Others: []string{foreign.Path}})
		}
		must(t, os.WriteFile(filepath.Join(b.home(), fmt.Sprintf("ask%d", i+1)), nil, 0o644))
		eventually(t, "it answers", func() bool { return strings.Contains(b.read(), fmt.Sprintf("%d all\n", i+1)) })
		want := fmt.Sprintf("%[1]d /dev/gpu0 %[2]d opens\n%[1]d /dev/gpu1 %[3]d opens\n%[1]d /dev/gpuctl %[4]d opens\n%[1]d %[5]s/gpu-63 63 closed\n%[1]d all\n",
			i+1, seen[i][0], seen[i][1], seen[i][2], b.home())
		if got := b.read(); !strings.HasSuffix(got, want) {
			t.Errorf("after move %d it sees\n%s and not\n%s", i, got, want)
		}
	}
	if r := s.must(order{Do: "wait"}); r.Code != 0 {
		t.Errorf("it ended with %d, signal %d", r.Code, r.Signal)
	}
}

// TestOtherDevices: what a container cannot take the place of is said, and nothing
// runs.
func TestOtherDevices(t *testing.T) {
	b := newBed(t)
	s := b.start()
	gpu, other, ctl := b.standIn(10, "/dev/gpu0"), b.standIn(11, "/dev/gpu1"), b.standIn(12, "/dev/gpuctl")
	s.must(order{Do: "start", Devices: []Device{gpu, ctl}, Script: "#!/bin/sh\necho runs\nwhile :; do sleep 0.01; echo on; done\n"})
	eventually(t, "it runs", func() bool { return strings.Contains(b.read(), "on\n") })
	image, _ := s.save()
	s.must(order{Do: "end"})
	was := b.read()
	wrong := gpu
	wrong.Minor++
	for name, row := range map[string]struct {
		devices, allowed []Device
		misfit           bool
		want             string
	}{
		"none":                      {nil, nil, true, "GPU: the image needs 1"},
		"one more":                  {[]Device{gpu, other, ctl}, nil, true, "the job would have 2"},
		"no companion":              {[]Device{gpu}, nil, true, "device /dev/gpuctl"},
		"a companion for a GPU":     {[]Device{ctl, b.standIn(13, "/dev/otherctl")}, nil, true, "GPU: the image needs 1"},
		"a file of another device":  {[]Device{wrong, ctl}, nil, false, "it is not the c device 7:11"},
		"a rule that lets too much": {[]Device{gpu, ctl}, []Device{other}, false, "lets the job open " + other.Path},
	} {
		next := b.start()
		r := next.do(order{Do: "restore", Image: image, Devices: row.devices, Others: []string{other.Path, "/dev/nonexistent"}, Allowed: row.allowed})
		if !strings.Contains(r.Error, row.want) || isAny(r, "misfit") != row.misfit || b.read() != was {
			t.Errorf("%s: %q", name, r.Error)
		}
	}
}
