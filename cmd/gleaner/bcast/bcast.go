package bcast

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// receive takes the file on a node: under another name until all of it is there. Its
// words are the destination, the size, the mode, the time or nothing, and whether a file
// that is there may be replaced.
const receive = `fail() { rm -f "$part"; echo "` + failedWord + `(${SLURMD_NODENAME:-?}): $1" >&2; exit 1; }
umask 077
part="$0.part.$$"
case "$4" in force) ;; *) [ ! -e "$0" ] || { part=; fail "File exists"; } ;; esac
[ ! -d "$0" ] || { part=; fail "Is a directory"; }
why=$(cat 2>&1 >"$part") || fail "${why:-it cannot be written}"
[ "$(wc -c <"$part")" -eq "$1" ] || fail "not all of it arrived"
why=$(chmod "$2" "$part" 2>&1) || fail "$why"
[ -z "$3" ] || why=$(touch -d "@$3" "$part" 2>&1) || fail "$why"
why=$(mv -f "$part" "$0" 2>&1) || fail "$why"`

// failedWord is how sbcast begins what went wrong on a node.
const failedWord = "REQUEST_FILE_BCAST"

// maxSaid bounds what is kept of what the step said.
const maxSaid = 64 << 10

func broadcast(inv *option.Invocation) error {
	given, err := inv.Command.FromEnvironment(inv.Lookup)
	if err != nil {
		return err
	}
	inv.Values = inv.Over(given)
	if len(inv.Operands) != 2 {
		return option.Fail(1, "Need two file names, have %d names", len(inv.Operands))
	}
	source, target := inv.Operands[0], inv.Operands[1]
	if strings.HasSuffix(target, "/") {
		return option.Fail(1, "Target filename cannot be a directory.")
	}
	if !filepath.IsAbs(target) {
		here, err := os.Getwd()
		if err != nil {
			return option.Fail(1, "the present directory is not known, so that %s means nothing: %w", target, err)
		}
		target = filepath.Join(here, target)
	}
	file, info, err := open(source)
	if err != nil {
		return err
	}
	defer file.Close()
	job, nodes, err := place(inv)
	if err != nil {
		return err
	}
	if inv.Given(optVerbose) {
		fmt.Fprintf(inv.Stderr, "%s: %s, %d bytes, to %s on %s of job %s\n", inv.Command.Program(), source, info.Size(), target, spec.FormatHostList(nodes), job)
	}
	return send(inv, file, job, nodes, words(inv, target, info))
}

// open opens what is to be copied.
func open(source string) (*os.File, os.FileInfo, error) {
	file, err := os.Open(source)
	if err != nil {
		return nil, nil, option.Fail(1, "Can't open `%s`: %w", source, console.Reason(err))
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("it is no regular file")
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, option.Fail(1, "Can't send `%s`: %w", source, err)
	}
	return file, info, nil
}

// place is the job, and those of its nodes that get the file.
func place(inv *option.Invocation) (job string, nodes []string, err error) {
	job, list := inv.Getenv("SLURM_JOB_ID"), inv.Getenv("SLURM_JOB_NODELIST")
	if named := inv.Text(optJobID); named != "" && named != job {
		job, list = named, ""
	}
	switch {
	case job == "":
		return "", nil, option.Fail(1, "Need a job id to run this command.  Run from within a Slurm job or use the --jobid option.")
	case list == "":
		if list, err = nodesOf(inv, job); err != nil {
			return "", nil, err
		}
	}
	if nodes, err = spec.ParseHostList(list); err != nil {
		return "", nil, option.Fail(1, "the nodes of job %s: %w", job, err)
	}
	if text := inv.Text(optNodelist); text != "" {
		wanted, err := spec.ParseHostList(text)
		if err != nil {
			return "", nil, inv.Fail("'%s' invalid entry for --nodelist: %w", text, err)
		}
		for _, name := range wanted {
			if !slices.Contains(nodes, name) {
				return "", nil, option.Fail(1, "node %s is none of job %s, which has %s", name, job, list)
			}
		}
		nodes = wanted
	}
	return job, nodes, nil
}

// nodesOf asks the controllers for the nodes of a job.
func nodesOf(inv *option.Invocation, name string) (string, error) {
	id, err := client.OneJob(name)
	if err != nil {
		return "", err
	}
	controllers, err := client.Connect(inv)
	if err != nil {
		return "", err
	}
	defer controllers.Close()
	list := ""
	request := &pb.ListJobsRequest{Filter: &pb.JobFilter{Ids: []*pb.JobId{id}}}
	err = client.List(inv.Context, controllers, controllers.ListJobs, request, func() bool { list = ""; return true }, func(answer *pb.ListJobsResponse) error {
		for _, job := range answer.GetJobs() {
			if job.GetState() == pb.JobState_JOB_STATE_RUNNING {
				list = job.GetNodeList()
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return "", option.Fail(1, "job %s: %s", name, client.Describe(err))
	case list == "":
		return "", option.Fail(1, "job %s does not run", name)
	}
	return list, nil
}

// words are those of receive.
func words(inv *option.Invocation, target string, info os.FileInfo) []string {
	modified, force := "", ""
	if inv.Given(optPreserve) {
		when := info.ModTime()
		modified = fmt.Sprintf("%d.%09d", when.Unix(), when.Nanosecond())
	}
	if inv.Given(optForce) {
		force = "force"
	}
	mode := strconv.FormatUint(uint64(info.Mode().Perm()), 8)
	return []string{target, strconv.FormatInt(info.Size(), 10), mode, modified, force}
}

// ofSteps are variables that give options of grun which this step must not have.
var ofSteps = []string{
	"LABELIO", "STDINMODE", "STDOUTMODE", "STDERRMODE", "MULTI", "BCAST", "EXACT", "EXCLUSIVE", "DISTRIBUTION", "GPUS_PER_TASK", "GPU_BIND", "CPU_BIND", "MPI_TYPE",
	"NTASKS", "NPROCS", "NTASKS_PER_NODE", "CPUS_PER_TASK", "KILL_BAD_EXIT", "WAIT",
}

// send runs the step.
func send(inv *option.Invocation, file *os.File, job string, nodes, words []string) error {
	self, err := os.Executable()
	if err != nil {
		return option.Fail(1, "the program of grun is not found: %w", err)
	}
	count := strconv.Itoa(len(nodes))
	arguments := []string{
		"run", "--overlap", "--quiet", "--jobid=" + job, "--nodelist=" + strings.Join(nodes, ","),
		"--nodes=" + count, "--ntasks=" + count, "--ntasks-per-node=1", "--chdir=/", "--", "/bin/sh", "-c", receive,
	}
	if target := inv.Text(option.Controller); target != "" {
		arguments = slices.Insert(arguments, 1, "--controller="+target)
	}
	said := &limited{}
	command := exec.CommandContext(inv.Context, self, append(arguments, words...)...)
	command.Stdin, command.Stdout, command.Stderr = file, said, said
	command.Env = slices.DeleteFunc(slices.Clone(inv.Environ), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		suffix, ours := strings.CutPrefix(name, "GRUN_")
		if !ours {
			suffix, ours = strings.CutPrefix(name, "SLURM_")
		}
		return ours && slices.Contains(ofSteps, suffix)
	})
	err = command.Run()
	if inv.Context.Err() != nil {
		return option.Exit(console.Interrupted)
	}
	if err == nil {
		return nil
	}
	return option.Fail(1, "%s", said.failures())
}

// limited keeps the beginning of what is written to it.
type limited struct{ bytes.Buffer }

func (l *limited) Write(data []byte) (int, error) {
	_, _ = l.Buffer.Write(data[:min(len(data), max(maxSaid-l.Len(), 0))])
	return len(data), nil
}

// failures are the lines about nodes, or if there is none all that was said.
func (l *limited) failures() string {
	var lines, failed []string
	for line := range strings.Lines(l.String()) {
		line = format.Printable(strings.TrimRight(line, "\n"))
		lines = append(lines, strings.TrimPrefix(line, "grun: error: "))
		if strings.HasPrefix(line, failedWord) {
			failed = append(failed, line)
		}
	}
	if len(failed) > 0 {
		lines = failed
	}
	if len(lines) == 0 {
		return "the copy was ended before it was whole"
	}
	return strings.Join(lines, "\n")
}
