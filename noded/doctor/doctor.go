// Package doctor finds out whether a machine can be a node of a cluster: it
// tries everything that gnoded and the supervisors of jobs do with the kernel,
// and says what does not work, what that means for jobs and how to mend it.
//
// What it promises: it changes nothing that stays. What it tries with files,
// mounts, control groups and processes has names of its own, in a directory
// beside the allocations of jobs, in a private mount namespace and in a group below
// cgroup_parent, and is removed again. It runs beside a daemon with jobs.
// Without root it says what it could not look at.
//
// What it needs: this program's executable, which it starts as "gnoded doctor"
// (see Tries) and "gnoded shim".
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gleaner-hpc/gleaner/noded"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
	"github.com/gleaner-hpc/gleaner/noded/trial"
	"github.com/gleaner-hpc/gleaner/proto/finding"
)

// Options say what is examined.
type Options struct {
	ConfigPath string // of gnoded
	Executable string // of gnoded
	Quick      bool   // without starting a container
}

// patient are for checks that start programs, which takes a while on a machine
// under load.
var patient = 40 * time.Second

// doctor is one examination.
type doctor struct {
	options Options
	config  noded.Config
	root    bool   // it may do what root may
	kernel  kernel // of this machine
	scratch string // a directory on the state directory's file system; "" = none
	noRoom  error  // why there is none
}

// Examine examines this machine as the node of a configuration. One that
// cannot be used is told, and the machine examined with the defaults.
func Examine(ctx context.Context, o Options) finding.Report {
	d, prepared := prepare(ctx, o)
	report := finding.Report{Host: finding.Host{
		Role: finding.Node, Name: d.config.Name, Version: noded.Version, Config: o.ConfigPath,
		Directory: d.config.StateDir, MinFreeBytes: d.config.MinFreeBytes,
		Controllers: d.config.Controllers, TLSDir: d.config.TLSDir,
	}}
	if _, err := os.Stat(o.ConfigPath); errors.Is(err, os.ErrNotExist) {
		report.Host.Config = ""
	}
	report.Findings = append(prepared, finding.Run(ctx, d.checks())...)
	report.Findings = append(report.Findings, d.removeScratch()...)
	return report
}

// prepare reads the configuration and makes the directory for trials. Either
// may hang, at a file server that is away: then the machine is examined
// without.
func prepare(ctx context.Context, o Options) (*doctor, []finding.Finding) {
	ready := make(chan *doctor, 1)
	found := finding.Run(ctx, []finding.Check{{Name: "configuration and state_dir", Run: func(ctx context.Context) []finding.Finding {
		d := &doctor{options: o, root: os.Geteuid() == 0, kernel: thisKernel()}
		found := d.readConfig()
		d.makeScratch(ctx)
		ready <- d
		return found
	}}})
	select {
	case d := <-ready:
		return d, found
	default:
		d := &doctor{options: o, root: os.Geteuid() == 0, kernel: thisKernel(), noRoom: errors.New("it was not reached")}
		d.config, _ = noded.ParseConfig(nil)
		return d, found
	}
}

func (d *doctor) checks() []finding.Check {
	return []finding.Check{
		{Name: "kernel", Run: d.checkKernel},
		{Name: "ginit", Run: d.checkGinit},
		{Name: "control groups", Limit: 2 * patient, Run: d.checkGroupsAndContainer},
		{Name: "user namespaces", Limit: patient, Run: d.checkUserNamespaces},
		{Name: "file systems", Limit: patient, Run: d.checkMounts},
		{Name: "system-call filter", Limit: patient, Run: d.checkFilter},
		{Name: "checkpoints", Limit: patient, Run: d.checkCRIU},
		{Name: "way out", Limit: patient, Run: d.checkWayOut},
		{Name: "GPUs", Limit: patient, Run: d.checkGPUs},
		{Name: cudaName, Limit: patient, Run: d.checkCUDA},
		{Name: "memory", Run: d.checkMemory},
		{Name: "processes", Run: d.checkProcesses},
		{Name: "counters", Run: d.checkCounters},
		{Name: "users", Run: d.checkUsers},
		{Name: "left over", Run: d.checkLeftOvers},
	}
}

// checkGroupsAndContainer does one after the other: both make groups below
// cgroup_parent, and the last one removes it.
func (d *doctor) checkGroupsAndContainer(ctx context.Context) []finding.Finding {
	if !d.root {
		return append(d.checkGroups(ctx), d.checkContainer(ctx, true)...)
	}
	restore := rememberGroups(d.config.CgroupParent)
	found := d.checkGroups(ctx)
	found = append(found, d.checkContainer(ctx, found[0].Status == finding.OK)...)
	if err := restore(); err != nil {
		found = append(found, finding.Doubtful("cleaning up", err.Error(), "a control group of this examination is left", "rmdir what is empty below /sys/fs/cgroup"+d.trialGroup()))
	}
	return found
}

// readConfig loads the configuration as the daemon does.
func (d *doctor) readConfig() []finding.Finding {
	const name = "configuration"
	path := d.options.ConfigPath
	config, err := noded.LoadConfig(path)
	if err == nil {
		d.config = config
		seen := path
		if _, err := os.Stat(path); err != nil {
			seen = "there is no " + path + ": all is default"
		}
		return []finding.Finding{finding.Good(name, fmt.Sprintf("%s; node %s", seen, config.Name))}
	}
	d.config, _ = noded.ParseConfig(nil)
	if errors.Is(err, os.ErrPermission) {
		return []finding.Finding{finding.Unseen(name, err.Error()+"; the rest is examined with the defaults")}
	}
	return []finding.Finding{finding.Bad(name, err.Error(),
		"gnoded does not start; the rest is examined with the defaults", "correct "+path+"; gnoded --help lists every key")}
}

// needsRoot is the finding where only root can look.
func needsRoot(check string) []finding.Finding {
	return []finding.Finding{finding.Unseen(check, "only root can try it: sudo gdoctor")}
}

// makeScratch makes the directory for trials on the file system of the state
// directory. A machine that is not set up yet
// has no state directory: the nearest directory above stands for it. When ctx
// has ended meanwhile, nobody waits for it any longer, and nobody would remove it.
func (d *doctor) makeScratch(ctx context.Context) {
	if !d.root {
		return
	}
	parent := d.config.StateDir
	for parent != "/" {
		if info, err := os.Stat(parent); err == nil && info.IsDir() {
			break
		}
		parent = filepath.Dir(parent)
	}
	// What mounts are named by is the path without links.
	parent, err := filepath.EvalSymlinks(parent)
	if err = cmp.Or(err, ctx.Err()); err == nil {
		d.scratch, err = os.MkdirTemp(parent, scratchPrefix)
	}
	if err != nil {
		d.scratch, d.noRoom = "", err
	}
}

func (d *doctor) removeScratch() []finding.Finding {
	if d.scratch == "" {
		return nil
	}
	if err := remove.Discard(d.scratch); err != nil {
		return []finding.Finding{finding.Doubtful("cleaning up", err.Error(), "something of this examination is left",
			"rm -r --one-file-system "+d.scratch)}
	}
	return nil
}

// scratchPrefix begins the name of the directory for trials.
const scratchPrefix = trial.DirectoryPrefix

// noScratch are the findings of a check that needs the directory and has none.
func (d *doctor) noScratch(check string) []finding.Finding {
	if !d.root {
		return needsRoot(check)
	}
	return []finding.Finding{finding.Bad(check, fmt.Sprintf("nothing can be made in state_dir: %v", d.noRoom),
		"no job can start here", "make "+d.config.StateDir+" writable for root, or name another state_dir; see the disk's own line")}
}
