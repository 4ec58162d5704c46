package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/proto/finding"
)

// trialUser is who trials run as: nobody's files are touched.
var trialUser = container.User{UID: 65534, GID: 65534, Name: "nobody", Group: "nogroup", Home: "/nonexistent", Shell: "/bin/sh"}

// TryWord is the argument of "gnoded doctor" before the name of a directory
// and whether what jobs write is unbounded, that makes it call Try.
const TryWord = "try"

// tried is container.Tried as JSON; "" = it works.
type tried struct {
	Private       string       `json:"private"` // parting from the host's mounts
	UserNamespace string       `json:"user_namespace"`
	Root          string       `json:"root"`
	Overlay       string       `json:"overlay"`
	Disk          string       `json:"disk"`
	Mounts        []triedMount `json:"mounts"`
}

type triedMount struct {
	Path    string `json:"path"`
	Type    string `json:"type"`
	Network bool   `json:"network"`
	Idmap   string `json:"idmap"`
}

// Try is the process that tries mounts, in a mount namespace of its own, on
// the main goroutine. It prints what it found out.
func Try(dir, unbounded string, hide []string) error {
	var t tried
	if err := container.Isolate(); err != nil {
		t.Private = err.Error()
		return json.NewEncoder(os.Stdout).Encode(t)
	}
	found := container.Try(dir, trialUser, hide, unbounded == strconv.FormatBool(true))
	t = tried{UserNamespace: text(found.UserNamespace), Root: text(found.Root), Overlay: text(found.Overlay), Disk: text(found.Disk)}
	for _, m := range found.Mounts {
		t.Mounts = append(t.Mounts, triedMount{m.Path, m.Type, m.Network, text(m.Idmap)})
	}
	return json.NewEncoder(os.Stdout).Encode(t)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (d *doctor) checkMounts(ctx context.Context) []finding.Finding {
	const name = "file systems"
	if d.scratch == "" {
		return d.noScratch(name)
	}
	dir := filepath.Join(d.scratch, "layers")
	if err := os.Mkdir(dir, 0o711); err != nil {
		return []finding.Finding{finding.Bad(name, err.Error(), "no job can start here", "see the line of the disk of state_dir")}
	}
	cmd := exec.CommandContext(ctx, d.options.Executable, append([]string{"doctor", TryWord, dir, strconv.FormatBool(d.config.TmpUnbounded)}, append(d.config.Hide, d.config.StateDir)...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = groupPatience
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	defer keepThread()()
	out, err := cmd.Output()
	var t tried
	if err == nil {
		err = json.Unmarshal(out, &t)
	}
	switch {
	case ctx.Err() != nil:
		return []finding.Finding{finding.Bad(name, "to mount copies of this machine's file systems took too long", "every start of a job does it",
			"see which does not answer: findmnt; dmesg | tail; what jobs need not see goes into hide of gnoded.toml")}
	case err != nil:
		return []finding.Finding{finding.Bad(name, fmt.Sprintf("no private mount namespace: %v %s", err, bytes.TrimSpace(complaints.Bytes())), "no job can start here", "run gnoded on the host itself, or in a container with CAP_SYS_ADMIN")}
	}
	return d.judgeMounts(&t)
}

func (d *doctor) judgeMounts(t *tried) []finding.Finding {
	if t.Private != "" {
		return []finding.Finding{finding.Bad("file systems", t.Private, "no job can start here", "run gnoded on the host itself, or in a container with CAP_SYS_ADMIN")}
	}
	if t.UserNamespace != "" {
		return []finding.Finding{finding.Unseen("file systems", "idmapped mounts need a user namespace: "+t.UserNamespace)}
	}
	var found []finding.Finding
	const rootName = "idmapped root"
	if t.Root == "" {
		found = append(found, finding.Good(rootName, "the machine's root can be idmapped: its files have their owners in jobs"))
	} else {
		found = append(found, finding.Doubtful(rootName, t.Root,
			"in jobs root's files look like nobody's, and programs that insist on their owner, ssh for one, fail",
			"have the root on a file system that can: ext4, xfs, btrfs; tmpfs from Linux 6.3"))
	}
	return append(found, d.judgeOverlay(t), d.judgeDisk(t), judgeShares(t.Mounts))
}

// judgeDisk is about the bound for what jobs write.
func (d *doctor) judgeDisk(t *tried) finding.Finding {
	const name = "disks of jobs"
	switch {
	case d.config.TmpUnbounded:
		return finding.Doubtful(name, `gnoded.toml says tmp_disk = "unbounded"`, "one job can fill the disk of state_dir, and stop all others on this node",
			"take tmp_disk out of gnoded.toml, or give it a size, and restart gnoded")
	case t.Disk == "":
		return finding.Good(name, "what each job writes is bounded: ext4 in a file, by a loop device")
	}
	return finding.Bad(name, t.Disk, "no job can start here",
		`apt-get install e2fsprogs; modprobe loop && echo loop >/etc/modules-load.d/loop.conf; or, where a job may fill the disk, tmp_disk = "unbounded" in gnoded.toml`)
}

func (d *doctor) judgeOverlay(t *tried) finding.Finding {
	const name = "overlay"
	if t.Overlay == "" {
		return finding.Good(name, "an overlay over the root can be written, with its upper layer in state_dir "+d.config.StateDir)
	}
	fix := "put state_dir on a local ext4 or xfs (of ftype=1), not on a network file system or an overlay; modprobe overlay"
	if strings.Contains(t.Overlay, "no such device") {
		fix = "modprobe overlay && echo overlay >/etc/modules-load.d/overlay.conf"
	}
	return finding.Bad(name, t.Overlay, "no job can start here", fix)
}

// judgeShares tells how jobs see the further file systems of the host.
func judgeShares(mounts []triedMount) finding.Finding {
	const name = "file systems in jobs"
	var mapped, plain []string
	for _, m := range mounts {
		shown := fmt.Sprintf("%s (%s)", m.Path, m.Type)
		if m.Network || m.Idmap != "" {
			plain = append(plain, shown)
		} else {
			mapped = append(mapped, shown)
		}
	}
	if len(mounts) == 0 {
		return finding.Good(name, "the root alone; nothing else is mounted that jobs see")
	}
	var parts []string
	if len(mapped) > 0 {
		parts = append(parts, "idmapped: "+few(mapped))
	}
	if len(plain) > 0 {
		parts = append(parts, "bound as they are, where other people's files look like nobody's: "+few(plain))
	}
	return finding.Good(name, strings.Join(parts, "; "))
}

// few lists the first of many.
func few(list []string) string {
	const most = 8
	if len(list) > most {
		list = append(slices.Clone(list[:most]), fmt.Sprintf("and %d more", len(list)-most))
	}
	return strings.Join(list, ", ")
}

// checkUserNamespaces makes one as jobs have them.
func (d *doctor) checkUserNamespaces(ctx context.Context) []finding.Finding {
	const name = "user namespaces"
	if !d.root {
		return needsRoot(name)
	}
	cmd := exec.CommandContext(ctx, "/bin/true")
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: container.HostIDBase, Size: 1000}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL, UidMappings: ids, GidMappings: ids,
	}
	defer keepThread()()
	err := cmd.Run()
	if err == nil {
		return []finding.Finding{finding.Good(name, "one with namespaces of processes, IPC, host name and network was made")}
	}
	if ctx.Err() != nil {
		return []finding.Finding{finding.Bad(name, "to make one took too long", "every start of a job does it", "see what keeps this machine busy: top; dmesg | tail")}
	}
	limit, fix := sysctl("user/max_user_namespaces"), "see dmesg | tail; a container that gnoded runs in must allow user namespaces"
	if limit == "0" || errors.Is(err, syscall.ENOSPC) {
		fix = "echo user.max_user_namespaces=65536 >/etc/sysctl.d/60-gleaner.conf && sysctl --system"
	}
	return []finding.Finding{finding.Bad(name, fmt.Sprintf("none can be made: %v (user.max_user_namespaces = %s)", err, limit), "no job can start here", fix)}
}

// sysctl answers a setting of the kernel, or "" where there is none.
func sysctl(name string) string {
	value, err := os.ReadFile(filepath.Join("/proc/sys", name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(value))
}
