package main

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/container"
)

// defaultPackages is where contrib/setup/slurm.sh puts Slurm.
const defaultPackages = "/var/cache/gleaner/slurm"

// highThroughput are the scheduler's parameters of a tuned Slurm, after
// Slurm's own page "High Throughput Computing Administration Guide": no pause
// between cycles, a start tried at each submission, the whole queue looked at.
const highThroughput = "sched_min_interval=0,batch_sched_delay=0,sched_interval=5,default_queue_depth=10000," +
	"partition_job_depth=0,sched_max_job_start=0,bf_interval=5,bf_max_job_test=1000"

// slurmConfig is Slurm at its lightest: no accounting, no cgroups, no
// container, quiet logs.
const slurmConfig = `ClusterName=bench
SlurmctldHost=` + hostName + `(127.0.0.1)
SlurmUser=root
AuthType=auth/slurm
CredType=cred/slurm
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/spool/slurmctld.log
SlurmdLogFile=/var/spool/slurmd.log
SlurmctldDebug=error
SlurmdDebug=error
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MaxJobCount=250000
MaxArraySize=100001
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`

// slurmNode is the one node of most measurements.
const slurmNode = `SlurmdParameters=config_overrides
NodeName=` + hostName + ` NodeAddr=127.0.0.1 CPUs=16 RealMemory=4000 State=UNKNOWN
`

// slurmPrograms are the paths inside of the user's commands.
var slurmPrograms = map[verb]string{
	submitVerb: "/usr/bin/sbatch", queueVerb: "/usr/bin/squeue", infoVerb: "/usr/bin/sinfo", controlVerb: "/usr/bin/scontrol",
	diagnoseVerb: "/usr/bin/sdiag",
}

//go:embed libslurm/submit.c
var submitSource []byte

// slurmKit is Slurm's programs, found and fit to be started.
type slurmKit struct {
	packages string // folder of the unpacked packages
	submit   string // the compiled submitter by libslurm
}

// findSlurm looks for Slurm where choice says: a folder, "auto" for where the
// setup puts it. scratch receives the submitter.
func findSlurm(choice, scratch string) (*slurmKit, error) {
	kit := &slurmKit{packages: choice, submit: filepath.Join(scratch, "submit")}
	if choice == "off" {
		return nil, errors.New("left out by SLURM=off")
	}
	if choice == "auto" {
		kit.packages = defaultPackages
	}
	for _, needed := range []string{slurmPrograms[submitVerb], "/usr/sbin/slurmctld-wlm", "/usr/sbin/slurmd-wlm", "/usr/include/slurm/slurm.h", "/usr/bin/sh", "/usr/bin/bash"} {
		if _, err := os.Stat(filepath.Join(kit.packages, needed)); err != nil {
			return nil, fmt.Errorf("no Slurm in %s (%w): contrib/setup/debian.sh slurm fetches it", kit.packages, err)
		}
	}
	return kit, kit.compile(scratch)
}

// compile builds the submitter with this machine's compiler. It runs inside,
// where the C library is the one that libslurm was made for.
func (k *slurmKit) compile(scratch string) error {
	source := filepath.Join(scratch, "submit.c")
	if err := os.WriteFile(source, submitSource, 0o644); err != nil {
		return err
	}
	libraries, err := filepath.Glob(filepath.Join(k.packages, "usr/lib/*/libslurm.so"))
	if err != nil || len(libraries) == 0 {
		return fmt.Errorf("no libslurm.so in %s: libslurm-dev holds it", k.packages)
	}
	output, err := exec.Command("cc", "-O2", "-pthread", "-I", filepath.Join(k.packages, "usr/include"), "-o", k.submit, source,
		libraries[0], "-Wl,--allow-shlib-undefined").CombinedOutput()
	if err != nil {
		return fmt.Errorf("compile the submitter by libslurm: %w: %s", err, bytes.TrimSpace(output))
	}
	return nil
}

// slurm is a running slurmctld and slurmd.
type slurm struct {
	host    *slurmHost
	kit     *slurmKit
	daemons []*daemon // the controller first
}

// startSlurm starts a cluster in a new directory on the disk. settings are lines
// of slurm.conf; "" leaves all at Slurm's defaults.
func startSlurm(ctx context.Context, kit *slurmKit, user container.User, directory, shared, settings string) (_ *slurm, err error) {
	if err := writeSlurmFiles(user, directory, slurmConfig+slurmNode+settings, ""); err != nil {
		return nil, err
	}
	host, err := newSlurmHost(kit.packages, directory, shared)
	if err != nil {
		return nil, err
	}
	s := &slurm{host: host, kit: kit}
	defer func() {
		if err != nil {
			err = s.gaveUp(err)
		}
	}()
	if err := s.startDaemon("/usr/sbin/slurmctld-wlm"); err != nil {
		return nil, err
	}
	if err := s.startDaemon("/usr/sbin/slurmd-wlm"); err != nil {
		return nil, err
	}
	return s, untilUp(ctx, s, s.daemons)
}

// gaveUp stops what did not start, and adds what it said to the error.
func (s *slurm) gaveUp(err error) error {
	return errors.Join(fmt.Errorf("%w%s", err, lastWords(s.log("slurmctld"), s.log("slurmd"))), s.stop())
}

// writeSlurmFiles writes what an installation would have in /etc into the
// layer that the host will see over the packages, before that is mounted.
func writeSlurmFiles(user container.User, directory, config, gres string) error {
	key := make([]byte, 1024)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	files := map[string]string{
		"slurm/slurm.conf":  config,
		"slurm/cgroup.conf": "CgroupPlugin=disabled\n",
		"slurm/gres.conf":   gres,
		"slurm/slurm.key":   string(key),
		"passwd":            fmt.Sprintf("root:x:0:0::/root:/bin/sh\n%s:x:%d:%d::/:/bin/sh\n", user.Name, user.UID, user.GID),
		"group":             fmt.Sprintf("root:x:0:\n%s:x:%d:\n", user.Group, user.GID),
		"hosts":             "127.0.0.1 localhost " + hostName + "\n",
		"nsswitch.conf":     "passwd: files\ngroup: files\nhosts: files\n",
	}
	for name, text := range files {
		path := filepath.Join(directory, hostUpper, "etc", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	// Debian's packages make this link when they are installed.
	stepd := filepath.Join(directory, hostUpper, "usr/sbin/slurmstepd")
	if err := os.MkdirAll(filepath.Dir(stepd), 0o755); err != nil {
		return err
	}
	if err := os.Symlink("slurmstepd-wlm", stepd); err != nil {
		return err
	}
	for _, name := range []string{"slurmctld", "slurmd"} {
		if err := os.MkdirAll(filepath.Join(directory, hostSpool, name), 0o755); err != nil {
			return err
		}
	}
	// Slurm takes no key that others may read.
	return os.Chmod(filepath.Join(directory, hostUpper, "etc/slurm/slurm.key"), 0o600)
}

func (s *slurm) startDaemon(program string) error {
	command := exec.Command(program, "-D")
	command.Env = plainEnvironment
	d, err := startDaemon(command, s.launch)
	if err != nil {
		return err
	}
	s.daemons = append(s.daemons, d)
	return nil
}

func (s *slurm) program(what verb, arguments ...string) *exec.Cmd {
	command := exec.Command(slurmPrograms[what], arguments...)
	command.Env = plainEnvironment
	return command
}

func (s *slurm) log(daemon string) string {
	return filepath.Join(s.host.directory, hostSpool, daemon+".log")
}

func (s *slurm) launch(command *exec.Cmd) error { return s.host.launch(command) }

func (s *slurm) controller() int { return s.daemons[0].command.Process.Pid }

// submitMany submits by libslurm.
func (s *slurm) submitMany(ctx context.Context, l load) (time.Duration, error) {
	if l.tasks > 0 {
		return 0, errors.New("not measured with Slurm")
	}
	command := exec.Command(s.kit.submit, strconv.Itoa(l.jobs), strconv.Itoa(l.clients), string(l.names))
	if l.gpus != "" {
		command.Args = append(command.Args, l.gpus)
	}
	command.Env = plainEnvironment
	var output, complaint bytes.Buffer
	command.Stdout, command.Stderr = &output, &complaint
	if err := s.launch(command); err != nil {
		return 0, fmt.Errorf("start the submitter by libslurm: %w", err)
	}
	if err := wait(ctx, command); err != nil {
		return 0, fmt.Errorf("submit by libslurm: %w: %s", err, bytes.TrimSpace(complaint.Bytes()))
	}
	return time.ParseDuration(strings.TrimSpace(output.String()) + "s")
}

// stop ends the daemons, and with the host whatever they left.
func (s *slurm) stop() error {
	var all []error
	for i := len(s.daemons) - 1; i >= 0; i-- {
		all = append(all, s.daemons[i].end())
	}
	return errors.Join(append(all, s.host.close())...)
}
