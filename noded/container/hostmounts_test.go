package container

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
)

// selectFrom reads mounts as "id parent path type [root] [source] [options]" and answers
// what is selected: the path, with "system" or "network" behind it.
func selectFrom(t *testing.T, table string, exclude ...string) []string {
	t.Helper()
	var infos []*mountinfo.Info
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		info := &mountinfo.Info{Root: "/"}
		if _, err := fmt.Sscan(strings.Join(fields[:4], " "), &info.ID, &info.Parent, &info.Mountpoint, &info.FSType); err != nil {
			t.Fatal(err)
		}
		if len(fields) > 4 {
			info.Root = fields[4]
		}
		if len(fields) > 5 {
			info.Source = fields[5]
		}
		if len(fields) > 6 {
			info.VFSOptions = fields[6]
		}
		infos = append(infos, info)
	}
	var got []string
	for _, m := range selectMounts(infos, exclude, 1000) {
		text := m.path
		if m.system {
			text += " system"
		}
		if m.network {
			text += " network"
		}
		got = append(got, text)
	}
	return got
}

func TestSelectMounts(t *testing.T) {
	got := selectFrom(t, `
		1 0 / ext4
		2 1 /usr ext4
		3 2 /usr/local nfs4
		4 1 /var xfs
		5 4 /var/lib/docker xfs
		6 5 /var/lib/docker/overlay2/x/merged overlay
		7 4 /var/lib/gleaner ext4
		8 4 /var/tmp ext4
		9 1 /home nfs4
		10 1 /opt tmpfs
		11 10 /opt/sw lustre
		12 1 /proc proc
		13 1 /usrlocal ext4
		14 1 /data xfs
		15 14 /data/archive nfs
		16 15 /data/archive/tape fuse.tape / tape allow_other
		17 14 /data/docker/overlay2/y/merged overlay
		18 14 /data/docker/containers/y/mounts/shm tmpfs / shm
		19 1 /scratch tmpfs
		20 1 /etc/resolv.conf ext4 /run/old//deleted
		21 1 /etc/hosts ext4 /srv/hosts
		22 1 /misc autofs
		23 22 /misc/a nfs4
		24 1 /run/user/1/doc fuse.portal
		25 1 /dev/shm tmpfs
		26 1 /snap/core/1 squashfs
		27 1 /cvmfs/atlas fuse / cvmfs ro,user_id=0,group_id=0,default_permissions,allow_other
		28 1 /boot/efi vfat
		29 1 /home-old ext4
		32 1 /home-x/ann/mine fuse.sshfs / x rw,user_id=1000,group_id=1000
		37 1 /home-x/ann/shared fuse.sshfs / x rw,user_id=1000,group_id=1000,allow_other
		33 1 /home-x/bob/his fuse.sshfs / x rw,user_id=1001,group_id=1001
		34 1 /home-x/bob/all fuse / x rw,user_id=1001,group_id=1001,allow_other
		35 1 /media/roots fuseblk / x rw,user_id=0,group_id=0
		36 1 /opt/x fuse.y / x rw,user_id=10000,group_id=1000
		30 14 /data/private ext4
		31 30 /data/private/x ext4
		`, "/var/lib/gleaner", "/data/private")
	want := []string{
		"/cvmfs/atlas network", "/data", "/data/archive network", "/etc/hosts system", "/home-old", "/home-x/ann/shared network", "/home network",
		"/misc/a network", "/opt system", "/opt/sw system network", "/scratch", "/usr system", "/usr/local system network",
		"/usrlocal", "/var system",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// What another mount covers is not there.
func TestCoveredMounts(t *testing.T) {
	for _, c := range []struct{ table, want string }{
		{"1 0 / ext4\n 2 1 /data ext4\n 3 2 /data tmpfs", "/data"},                                               // the upper one
		{"1 0 / ext4\n 2 1 /data ext4\n 3 2 /data proc", ""},                                                     // hides it
		{"1 0 / ext4\n 2 1 /data/x ext4\n 3 1 /data proc", ""},                                                   // hides what is below
		{"1 0 / ext4\n 2 1 /data ext4\n 3 2 /data/x ext4\n 4 2 /data proc", ""},                                  // and what is mounted in it
		{"1 0 / ext4\n 2 1 /data proc\n 3 2 /data/x ext4", "/data/x"},                                            // mounted later, on it
		{"1 0 / ext4\n 2 1 /data ext4\n 3 2 /data tmpfs\n 4 3 /data/y ext4\n 5 2 /data/z ext4", "/data,/data/y"}, // z is below the upper
		{"1 0 / rootfs\n 2 1 / ext4\n 3 2 /data ext4\n 4 1 /data2 ext4", "/data"},                                // a root over a root
		{"1 2 / ext4\n 2 1 /data ext4", ""},                                                                      // nonsense is no endless search
	} {
		if got := strings.Join(selectFrom(t, c.table), ","); got != c.want {
			t.Errorf("%s:\ngot %q, want %q", c.table, got, c.want)
		}
	}
}
