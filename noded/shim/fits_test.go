package shim

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/images"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/client"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// facts answers what a node that is only asked knows of an image.
func (b *bed) facts(image *pb.Image) *checkpoint.Manifest {
	b.t.Helper()
	digest, err := images.Digest(image)
	must(b.t, err)
	facts, err := images.New(b.settings.Checkpoint.Stores).Facts(context.Background(), image, digest, testNode, nil)
	must(b.t, err)
	return facts
}

func (b *bed) ask(order *pb.StartAlloc) bundle.Misfit {
	b.t.Helper()
	return b.askWithin(context.Background(), order)
}

func (b *bed) askWithin(ctx context.Context, order *pb.StartAlloc) bundle.Misfit {
	b.t.Helper()
	self, err := os.Executable()
	must(b.t, err)
	found, err := client.Fits(ctx, self, b.settings, order, b.facts(order.Restore))
	must(b.t, err)
	return found
}

// A node that is asked whether it could resume an image, and one that is made to
// try, say the same, whatever is not as it was.
func TestFitsAndRestoreSayTheSame(t *testing.T) {
	noRace(t)
	if !privately(t) {
		return // what it mounts would be in the containers of other tests
	}
	b := newSavingBed(t)
	share, err := os.MkdirTemp("/srv", "gleaner-shim-") // not where jobs have directories of their own
	if err != nil {
		t.Skipf("needs a directory that jobs see: %v", err)
	}
	must(t, os.Chmod(share, 0o755))
	defer os.Remove(share)
	mount := func(flags uintptr) {
		must(t, unix.Mount("gleaner-test", share, "tmpfs", flags, "mode=0777,size=8m"))
		must(t, os.WriteFile(share+"/data", []byte("data\n"), 0o644))
		must(t, os.Chown(share+"/data", testUID, testGID))
		program, err := os.ReadFile("/bin/sleep")
		must(t, err)
		must(t, os.WriteFile(share+"/sleep", program, 0o755))
	}
	unmount := func() { must(t, unix.Unmount(share, unix.MNT_DETACH)) }
	mount(0)
	defer func() { _ = unix.Unmount(share, unix.MNT_DETACH) }()
	unused, err := os.MkdirTemp("/srv", "gleaner-shim-")
	must(t, err)
	defer os.Remove(unused)
	must(t, unix.Mount("gleaner-test", unused, "tmpfs", 0, "mode=0777,size=1m"))
	defer func() { _ = unix.Unmount(unused, unix.MNT_DETACH) }()
	order := b.order("exec 5< " + share + "/data 6>> " + b.home + "/log; cd " + share + "; ./sleep 1000 & echo up; wait")
	first := b.launch(order)
	first.ready()
	eventually(t, "it is up", func() bool { return b.output() == "up\n" && first.runsProgram("sleep") })
	saved := first.saveAndEnd(1)
	settings := b.settings
	for _, row := range []struct {
		name, property, want string
		change               func(*pb.StartAlloc) (back func())
	}{
		{"as it was", "", "", func(*pb.StartAlloc) func() { return func() {} }},
		{"the mount is missing", "file " + share + "/sleep", "there is none", func(*pb.StartAlloc) func() {
			unmount()
			must(t, os.Remove(share))
			return func() { must(t, os.Mkdir(share, 0o755)); mount(0) }
		}},
		{"it is mounted elsewhere", "file " + share + "/sleep", "there is none", func(*pb.StartAlloc) func() {
			unmount()
			must(t, os.Rename(share, share+"2"))
			share += "2"
			mount(0)
			return func() {
				unmount()
				must(t, os.Rename(share, strings.TrimSuffix(share, "2")))
				share = strings.TrimSuffix(share, "2")
				mount(0)
			}
		}},
		{"a mount that nothing was open in is missing", "mount " + unused, "not on this node", func(*pb.StartAlloc) func() {
			must(t, unix.Unmount(unused, unix.MNT_DETACH))
			return func() { must(t, unix.Mount("gleaner-test", unused, "tmpfs", 0, "mode=0777,size=1m")) }
		}},
		{"it is read-only", "directory " + share, "read-only", func(*pb.StartAlloc) func() {
			must(t, unix.Mount("", share, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
			return func() { must(t, unix.Mount("", share, "", unix.MS_REMOUNT|unix.MS_BIND, "")) }
		}},
		{"nothing is run from it", "file " + share + "/sleep", "noexec", func(*pb.StartAlloc) func() { unmount(); mount(unix.MS_NOEXEC); return func() { unmount(); mount(0) } }},
		{"a file is missing", "file " + share + "/data", "no such file", func(*pb.StartAlloc) func() {
			must(t, os.Rename(share+"/data", share+"/aside"))
			return func() { must(t, os.Rename(share+"/aside", share+"/data")) }
		}},
		{"a file is closed to the user", "file " + share + "/data", "permission denied", func(*pb.StartAlloc) func() {
			must(t, os.Chown(share+"/data", 0, 0))
			must(t, os.Chmod(share+"/data", 0o600))
			return func() { must(t, os.Chown(share+"/data", testUID, testGID)) }
		}},
		{"a file in memory has other bytes", "file " + share + "/sleep", "SHA-256", func(*pb.StartAlloc) func() {
			unmount()
			mount(0)
			file, err := os.OpenFile(share+"/sleep", os.O_WRONLY, 0)
			must(t, err)
			_, err = file.WriteAt([]byte("other bytes"), 5000)
			must(t, err)
			must(t, file.Close())
			return func() { unmount(); mount(0) }
		}},
		{"a link is in its place", "file " + share + "/data", "symbolic links", func(*pb.StartAlloc) func() {
			must(t, os.Rename(share+"/data", share+"/aside"))
			must(t, os.Symlink("aside", share+"/data"))
			return func() { must(t, os.Remove(share+"/data")); must(t, os.Rename(share+"/aside", share+"/data")) }
		}},
		{"other groups", "groups", "groups", func(o *pb.StartAlloc) func() { o.Owner.Groups = []uint32{4299}; return func() {} }},
		{"another user", "node", "of user", func(o *pb.StartAlloc) func() { o.Owner.Uid++; return func() {} }},
		{"a name that is somebody else's", "user", "somebody else's", func(o *pb.StartAlloc) func() { o.Owner.User = "root"; return func() {} }},
		{"less memory", "memory", "may take", func(o *pb.StartAlloc) func() { o.Allocation[0].MemoryBytes = 128 << 10; return func() {} }},
		{"no work directory", "path", "chdir", func(o *pb.StartAlloc) func() { o.Spec.WorkDirectory = "/nonexistent"; return func() {} }},
		{"output nobody can write", "path", "standard output", func(o *pb.StartAlloc) func() { o.Spec.StandardOutput = "/nonexistent/out"; return func() {} }},
		{"one GPU more", "GPU", "image needs 0", func(*pb.StartAlloc) func() {
			b.settings.DeviceFiles = []bundle.DeviceFile{{Path: "/dev/null", ContainerPath: "/dev/gpu0", Type: 'c', Major: 1, Minor: 3, Access: "rw"}}
			return func() { b.settings = settings }
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			next := restored(order, proto.CloneOf(saved.Image))
			next.Alloc.Epoch += lastJob.Add(1)
			next.Spec = proto.CloneOf(order.Spec)
			next.Owner = proto.CloneOf(order.Owner)
			defer row.change(next)()
			found := b.ask(next)
			if found.Property != row.property || !strings.Contains(found.Reason, row.want) {
				t.Fatalf("asked it says %+v", found)
			}
			if row.property == "" {
				return
			}
			result := b.launch(next).wait()
			cause := pb.EndCause_END_CAUSE_RESTORE_FAILED
			if row.property == "user" {
				cause = pb.EndCause_END_CAUSE_OTHER_ACCOUNT
			}
			if result.Cause != cause || !strings.Contains(result.Detail, found.Reason) {
				t.Errorf("asked it says %q, and made to try %v", found.Reason, result)
			}
		})
	}
	if left, err := os.ReadDir(filepath.Join(b.state, "asked")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A file system that never answers holds up nobody who asks.
func TestFitsOfSilentFiles(t *testing.T) {
	if !privately(t) {
		return // what it mounts would be in the containers of other tests
	}
	b := newSavingBed(t)
	order := b.counter()
	first := b.launch(order)
	first.ready()
	b.countsOn()
	saved := first.saveAndEnd(1)
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("needs /dev/fuse: %v", err)
	}
	silent := filepath.Join(b.dir, "silent")
	must(t, os.Mkdir(silent, 0o755))
	must(t, unix.Mount("gleaner-test", silent, "fuse", 0, "fd="+strconv.Itoa(fd)+",rootmode=40000,user_id=0,group_id=0,allow_other"))
	defer func() {
		must(t, unix.Close(fd)) // whoever waits continues
		must(t, unix.Unmount(silent, unix.MNT_DETACH))
	}()
	next := restored(order, saved.Image)
	next.Spec.WorkDirectory = filepath.Join(silent, "work")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if found := b.askWithin(ctx, next); found.Property != "file system" {
		t.Errorf("asked it says %+v", found)
	}
}
