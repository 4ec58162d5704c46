// Package jobspec makes a job's specification of options: those of the command
// line, those of the environment, and those of the #GSUB and #SBATCH lines of
// the script. The earlier of these win over the later.
//
// New makes the whole request of one gsubmit; Options is its table. Errors name
// the option and where it was given. It reads the script and the environment,
// and asks no controller.
package jobspec

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Submission is the request that the command line, the environment and the
// script make, the values it was made of, and what to warn of.
type Submission struct {
	Request  *pb.SubmitRequest
	Values   option.Values
	Warnings []string
}

// New reads everything that makes a submission; it asks nobody.
func New(inv *option.Invocation) (*Submission, error) {
	script, err := loadScript(inv)
	if err != nil {
		return nil, err
	}
	inScript, err := scriptDirectives(inv.Command, script.text, script.path)
	if err != nil {
		return nil, err
	}
	inEnvironment, err := inv.Command.FromEnvironment(inv.Lookup)
	if err != nil {
		return nil, err
	}
	directory, err := currentDirectory(inv, inScript)
	if err != nil {
		return nil, err
	}
	job, values, err := mergedSpec(directory, inv.Values, inEnvironment, inScript.values())
	if err != nil {
		return nil, withSource(err, directory, inv, inEnvironment, inScript)
	}
	environ, warnings := readableEnvironment(inv.Environ)
	warnings = append(warnings, inScript.warnings...)
	if inScript.foreign != "" && !values.Given(optIgnorePBS) {
		warnings = append(warnings, inScript.foreign+" is not read: write options of PBS and LSF as #SBATCH; --"+optIgnorePBS+" is silent about them")
	}
	warnings = append(warnings, inv.Command.Ignored(notTyped(values, inv.Values))...)
	if warning := interpreterWarning(script.text); warning != "" {
		warnings = append(warnings, warning)
	}
	warnings = append(warnings, fitNodesToTasks(job)...)
	warnings = append(warnings, placesWarnings(job, values)...)
	if values.Text(optWaitAllNodes) == "0" {
		warnings = append(warnings, "--wait-all-nodes=0 changes nothing: a script always starts when all its nodes are ready")
	}
	if job.Name == "" {
		job.Name = filepath.Base(script.name)
	}
	job.Script, job.Command, job.Arguments = script.text, absolute(directory, script.path), script.arguments
	if job.Environment, err = jobEnvironment(environ, job.ExportOption, values); err != nil {
		return nil, err
	}
	if job.Umask, err = FileMask(inv.Getenv("SLURM_UMASK")); err != nil {
		return nil, err
	}
	if job.SubmitHost, err = os.Hostname(); err != nil {
		job.SubmitHost = "localhost"
	}
	asUser, err := submitFor(values)
	request := &pb.SubmitRequest{RequestId: uuid.NewString(), Spec: job, AsUser: asUser}
	return &Submission{Request: request, Values: values, Warnings: warnings}, err
}

// ofStep are the options of grun that say how tasks run: what it asks for an
// allocation of its own has its own meaning of them, or none.
var ofStep = []string{OptOutput, OptError, OptInput, OptOpenMode, OptChdir, OptExport, OptHold, OptWait}

// NewAllocation is the request of a job that only holds what the values ask for. Its
// script is given, and what it writes goes nowhere.
func NewAllocation(inv *option.Invocation, values option.Values, name, script string) (*Submission, error) {
	directory, err := os.Getwd()
	if err != nil {
		directory = "/"
	}
	asked := option.Values{}
	for long, given := range values {
		if !slices.Contains(ofStep, long) {
			asked[long] = given
		}
	}
	job, merged, err := mergedSpec(directory, asked)
	if err == nil {
		err = checkAllocationStaging(job.GetStaging())
	}
	if err != nil {
		return nil, err
	}
	environ, warnings := readableEnvironment(inv.Environ)
	warnings = append(warnings, fitNodesToTasks(job)...)
	job.Script, job.Name = []byte(script), cmp.Or(job.Name, name)
	job.StandardOutput, job.Requeue = os.DevNull, false
	if job.Environment, err = jobEnvironment(environ, "", merged); err != nil {
		return nil, err
	}
	if job.Umask, err = FileMask(inv.Getenv("SLURM_UMASK")); err != nil {
		return nil, err
	}
	if job.SubmitHost, err = os.Hostname(); err != nil {
		job.SubmitHost = "localhost"
	}
	asUser, err := submitFor(merged)
	request := &pb.SubmitRequest{RequestId: uuid.NewString(), Spec: job, AsUser: asUser}
	return &Submission{Request: request, Values: merged, Warnings: warnings}, err
}

// notTyped are the values that come from the environment or the script: what has no
// effect on the command line has been told of already.
func notTyped(values, typed option.Values) option.Values {
	rest := option.Values{}
	for long, given := range values {
		if !typed.Given(long) {
			rest[long] = given
		}
	}
	return rest
}

// currentDirectory is where the job starts unless --chdir says otherwise. A
// user whose current directory is gone may still name another.
func currentDirectory(inv *option.Invocation, inScript *directives) (string, error) {
	directory, err := os.Getwd()
	if err == nil || filepath.IsAbs(cmp.Or(inv.Text(OptChdir), inScript.values().Text(OptChdir))) {
		return directory, nil
	}
	return "", option.Fail(1, "the current directory cannot be told: %w\nName one with --chdir=/PATH, or submit from a directory that exists", console.Reason(err))
}

// absolute is a path as seen from a directory; no path stays none.
func absolute(directory, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(directory, path)
}

// submitFor is the user of --uid, which only root may name.
func submitFor(values option.Values) (string, error) {
	if !values.Given(OptUID) {
		return "", nil
	}
	if os.Geteuid() != 0 {
		return "", option.Fail(255, "--uid only permitted by root user: leave it out to submit as yourself")
	}
	if values.Text(OptUID) == "" {
		return "", option.Fail(255, "Invalid --uid specification: type the name or number of a user")
	}
	if !utf8.ValidString(values.Text(OptUID)) {
		return "", option.Fail(1, "Invalid --uid specification: %q", values.Text(OptUID))
	}
	return values.Text(OptUID), nil
}

// FileMask is the process's umask, or what SLURM_UMASK says in its place.
func FileMask(override string) (uint32, error) {
	if override != "" {
		mask, err := strconv.ParseUint(override, 8, 32)
		if err != nil || mask > 0o777 {
			return 0, option.Fail(1, "SLURM_UMASK is %q: set it to an octal number such as 022, or unset it", override)
		}
		return uint32(mask), nil
	}
	mask := syscall.Umask(0o077) // it can only be read by setting it
	syscall.Umask(mask)
	return uint32(mask), nil
}

// fitNodesToTasks lowers the number of nodes to that of the tasks, as sbatch
// does: a node without a task would only be held.
func fitNodesToTasks(job *pb.JobSpec) []string {
	if job.Tasks == 0 || job.MinNodes <= job.Tasks {
		return nil
	}
	warning := fmt.Sprintf("can't run %d processes on %d nodes, setting nnodes to %d", job.Tasks, job.MinNodes, job.Tasks)
	job.MinNodes, job.MaxNodes = job.Tasks, job.Tasks
	return []string{warning}
}
