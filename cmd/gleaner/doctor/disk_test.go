package doctor

import (
	"context"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/finding"
)

const gib = 1 << 30

// What a file system says of itself, by role. Full disks and their options are
// provoked in the story "doctor".
func TestDisk(t *testing.T) {
	node := finding.Host{Role: finding.Node, Directory: "/", MinFreeBytes: 64 << 20}
	controller := finding.Host{Role: finding.Controller, Directory: "/"}
	disk := func(magic int64, free uint64, flags int64) unix.Statfs_t {
		return unix.Statfs_t{Type: magic, Bsize: 1, Bavail: free, Files: 1 << 20, Ffree: 1 << 19, Flags: flags}
	}
	noInodes := disk(unix.EXT4_SUPER_MAGIC, 9*gib, 0)
	noInodes.Ffree = 7
	uncounted := noInodes
	uncounted.Files, uncounted.Ffree = 0, 0
	for _, c := range []struct {
		host   finding.Host
		disk   unix.Statfs_t
		status finding.Status
		word   string
	}{
		{node, disk(unix.EXT4_SUPER_MAGIC, 9*gib, unix.ST_NOSUID|unix.ST_NODEV), finding.OK, "ext4, 9.0 GiB free, 524288 inodes free"},
		{node, disk(unix.EXT4_SUPER_MAGIC, 9*gib, unix.ST_RDONLY), finding.Failed, "read-only"},
		{node, disk(unix.EXT4_SUPER_MAGIC, 9*gib, unix.ST_NOEXEC), finding.Failed, "remount,exec"},
		{controller, disk(unix.EXT4_SUPER_MAGIC, 9*gib, unix.ST_NOEXEC), finding.OK, ""},
		{node, disk(unix.XFS_SUPER_MAGIC, 63<<20, 0), finding.Failed, "64.0 MiB are needed"},
		{controller, disk(unix.XFS_SUPER_MAGIC, 15<<20, 0), finding.Failed, "no job is accepted"},
		{controller, disk(unix.XFS_SUPER_MAGIC, 17<<20, 0), finding.Warning, "full soon"},
		{node, noInodes, finding.Failed, "7 inodes free, and 1024 are needed"},
		{node, uncounted, finding.OK, ""},
		{controller, disk(unix.NFS_SUPER_MAGIC, 9*gib, 0), finding.Warning, "local disk"},
		{controller, disk(unix.TMPFS_MAGIC, 9*gib, 0), finding.Warning, "gone after a restart"},
		{node, disk(0x1234, 9*gib, 0), finding.OK, "type 0x1234"},
	} {
		want(t, []finding.Finding{judgeDisk("disk", c.host, &c.disk)}, "disk", c.status, c.word)
	}
}

// What root's daemons read is nobody else's to change.
func TestOpenToChange(t *testing.T) {
	dir := t.TempDir()
	host := finding.Host{Role: finding.Node, Config: dir + "/gnoded.toml", Directory: dir + "/state"}
	must(t, os.WriteFile(host.Config, nil, 0o644))
	must(t, os.Mkdir(host.Directory, 0o711))
	if found := checkConfigFile(host); len(found) > 0 {
		t.Errorf("%+v", found)
	}
	if found := checkDisk(host); len(found) != 1 {
		t.Errorf("%+v", found)
	}
	must(t, os.Chmod(host.Config, 0o664))
	want(t, checkConfigFile(host), "configuration file", finding.Failed, "mode 0664", "chmod 644 "+host.Config)
	must(t, os.Chmod(host.Directory, 0o777))
	want(t, checkDisk(host), "disk of "+host.Directory, finding.Failed, "mode 0777", "chmod 711")
	if os.Getuid() != 0 {
		t.Skip("needs root: gives a file to another user")
	}
	must(t, os.Chown(host.Config, 4242, 4242))
	want(t, checkConfigFile(host), "configuration file", finding.Failed, "belongs to user 4242")
}

func TestSpeed(t *testing.T) {
	times := func(usual, seldom time.Duration) []time.Duration {
		list := make([]time.Duration, 200)
		for i := range list {
			list[i] = usual
		}
		for i := range 3 {
			list[len(list)-1-i] = seldom
		}
		return list
	}
	for _, c := range []struct {
		role          string
		usual, seldom time.Duration
		status        finding.Status
	}{
		{finding.Controller, time.Millisecond, 50 * time.Millisecond, finding.OK},
		{finding.Controller, time.Millisecond, 200 * time.Millisecond, finding.Warning},
		{finding.Controller, 12 * time.Millisecond, 20 * time.Millisecond, finding.Warning},
		{finding.Controller, time.Second, time.Second, finding.Failed},
		{finding.Node, 12 * time.Millisecond, 200 * time.Millisecond, finding.OK},
		{finding.Node, time.Second, time.Second, finding.Warning},
	} {
		want(t, []finding.Finding{judgeSpeed("speed", c.role, times(c.usual, c.seldom))}, "speed", c.status, "(half of them)")
	}
}

// The timing leaves no file, and a time that is over ends it.
func TestTiming(t *testing.T) {
	host := finding.Host{Role: finding.Controller, Directory: t.TempDir() + "/not/there/yet"}
	for _, f := range checkSpeed(t.Context(), host) {
		if f.Status == finding.Skipped || f.Seen == "" {
			t.Errorf("%+v", f)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	want(t, checkSpeed(over, host), "speed of "+host.Directory, finding.Failed, "durable")
	if entries, err := os.ReadDir(nearest(host.Directory)); err != nil || len(entries) > 0 {
		t.Errorf("left: %v %v", entries, err)
	}
}
