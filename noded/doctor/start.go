package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/trial"
	"github.com/gleaner-hpc/gleaner/proto/finding"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func (d *doctor) checkGinit(context.Context) []finding.Finding {
	const name = "ginit"
	fix := "install bin/ginit beside gnoded (install bin/ginit /usr/local/sbin/), or set ginit in gnoded.toml"
	info, err := os.Stat(d.config.Init)
	switch {
	case errors.Is(err, os.ErrPermission):
		return needsRoot(name)
	case err != nil:
		return []finding.Finding{finding.Bad(name, err.Error(), "it is process 1 of every container: gnoded does not start", fix)}
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return []finding.Finding{finding.Bad(name, d.config.Init+" is not a program", "it is process 1 of every container: gnoded does not start", fix)}
	}
	if info.Mode().Perm()&0o022 != 0 {
		return []finding.Finding{finding.Bad(name, fmt.Sprintf("%s has mode %04o: others may change it", d.config.Init, info.Mode().Perm()),
			"who changes it reaches into every job", fix+"; install gives it mode 755")}
	}
	return []finding.Finding{finding.Good(name, d.config.Init)}
}

// checkFilter makes the system-call filter as the daemon does at its start.
func (d *doctor) checkFilter(context.Context) []finding.Finding {
	const name = "system-call filter"
	means := "gnoded does not start: no job runs without one"
	if scope := sysctl("kernel/yama/ptrace_scope"); scope == "3" {
		return []finding.Finding{finding.Bad(name, "kernel.yama.ptrace_scope = 3 forbids to read it back from the kernel", means,
			"echo kernel.yama.ptrace_scope=1 >/etc/sysctl.d/60-gleaner.conf, take the 3 out of /etc/sysctl.d, reboot: it cannot be lowered before")}
	}
	if !d.root {
		return needsRoot(name)
	}
	filter, err := container.CompileFilter(false)
	if err == nil {
		return []finding.Finding{finding.Good(name, fmt.Sprintf("translated for this kernel, put on and read back: %d bytes", len(filter)))}
	}
	fix := "boot a kernel with CONFIG_SECCOMP_FILTER and CONFIG_CHECKPOINT_RESTORE, as Debian's own: apt-get install linux-image-amd64 && reboot"
	if errors.Is(err, container.ErrNoSeccomp) {
		fix = "build again: apt-get install libseccomp-dev && make"
	}
	return []finding.Finding{finding.Bad(name, err.Error(), means, fix)}
}

// checkContainer runs a job of nobody's, by the very code that runs jobs.
func (d *doctor) checkContainer(ctx context.Context, groups bool) []finding.Finding {
	const name = "container"
	switch {
	case d.options.Quick:
		return []finding.Finding{finding.Unseen(name, "not started, because of --quick")}
	case !d.root:
		return needsRoot(name)
	case d.scratch == "":
		return d.noScratch(name)
	case !groups:
		return []finding.Finding{finding.Unseen(name, "not started: control groups come first")}
	}
	if _, err := os.Stat(d.config.Init); err != nil {
		return []finding.Finding{finding.Unseen(name, "not started: ginit comes first")}
	}
	began := time.Now()
	ended, err := d.runTrialJob(ctx)
	if err != nil {
		return []finding.Finding{finding.Bad(name, err.Error(), "no job can start here", "see the other lines first; the kernel's word may help: dmesg | tail")}
	}
	if err := trial.Judge(ended); err != nil {
		fix := "see the other lines first; the kernel's word may help: dmesg | tail"
		if strings.Contains(ended.Detail, "permission denied") || ended.ExitCode == 126 {
			fix = "state_dir may lie on a file system mounted noexec: mount -o remount,exec it, or name another state_dir"
		}
		return []finding.Finding{finding.Bad(name, err.Error(), "no job can start here, or they fail", fix)}
	}
	return []finding.Finding{finding.Good(name, fmt.Sprintf("/bin/true ran as nobody in a container of its own, %v from the order to the end of cleaning up", time.Since(began).Round(time.Millisecond)))}
}

// runTrialJob runs it in the directory for trials.
func (d *doctor) runTrialJob(ctx context.Context) (*pb.AllocEnded, error) {
	return trial.Run(ctx, trial.Setup{
		Executable: d.options.Executable, Directory: d.scratch, Group: d.trialGroup(),
		Node: d.config.Name, Init: d.config.Init, Binds: d.config.Bind, Hide: d.config.Hide, TmpUnbounded: d.config.TmpUnbounded,
	})
}
