package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// submit is gsubmit.
func submit(inv *option.Invocation) error {
	job, err := newSubmission(inv)
	if err != nil {
		return err
	}
	job.warn(inv, job.warnings)
	controller, err := connect(inv)
	if err != nil {
		return err
	}
	defer controller.Close()
	if job.values.Given(optVerbose) {
		spec := job.request.Spec
		fmt.Fprintf(inv.Stderr, "%s: sending %q with %d bytes of script and %d variables to %v\n", inv.Command.Program(),
			spec.Name, len(spec.Script), len(spec.Environment), controller.targets)
	}
	answer, err := call(inv.Context, controller, controller.Submit, job.request)
	if inv.Context.Err() != nil && err != nil {
		return option.Fail(interrupted, "interrupted before a controller answered: the job may have been accepted. Look with gqueue --me before you submit it again")
	}
	if err != nil {
		return submissionFailed(err)
	}
	job.warn(inv, answer.GetWarnings())
	if err := job.printNumber(inv, answer.GetJobId()); err != nil {
		return option.Fail(1, "job %d was submitted, but its number could not be printed: %w", answer.GetJobId(), err)
	}
	if job.values.Given(optWait) {
		return waitForJob(inv.Context, controller, answer.GetJobId())
	}
	return nil
}

// warn says what is no error, unless nothing but errors was asked for.
func (s *submission) warn(inv *option.Invocation, warnings []string) {
	if s.values.Given(optQuiet) {
		return
	}
	for _, warning := range warnings {
		fmt.Fprintf(inv.Stderr, "%s: warning: %s\n", inv.Command.Program(), format.Printable(warning))
	}
}

// printNumber says that the job was accepted. A reader that has gone must not
// end the command by its signal: the number would be lost.
func (s *submission) printNumber(inv *option.Invocation, number uint32) error {
	text := fmt.Sprintf("Submitted batch job %d\n", number)
	switch {
	case s.values.Given(optQuiet):
		return nil
	case s.values.Given(optParsable):
		text = fmt.Sprintf("%d\n", number)
	}
	signal.Ignore(syscall.SIGPIPE)
	_, err := io.WriteString(inv.Stdout, text)
	return err
}

// submissionFailed is sbatch's sentence about what the controller answered.
func submissionFailed(err error) error {
	message := "Batch job submission failed: " + plain(err)
	if strings.HasPrefix(plain(err), "invalid partition specified: ") {
		message = plain(err) + "\nBatch job submission failed: Invalid partition name specified"
	}
	unreachable := (*unreachableError)(nil)
	if errors.As(err, &unreachable) {
		message = "Batch job submission failed: " + err.Error()
		if unreachable.perhapsDone {
			message += "\nThe connection broke before an answer came: the job may have been accepted. Look with gqueue --me before you submit it again"
		}
	}
	return &option.Failure{Status: 1, Message: message, Cause: err}
}

// submission is the request that the command line, the environment and the
// script make, the values it was made of, and what to warn of.
type submission struct {
	request  *pb.SubmitRequest
	values   option.Values
	warnings []string
}

// newSubmission reads everything that makes a submission; it asks nobody.
func newSubmission(inv *option.Invocation) (*submission, error) {
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
	if warning := interpreterWarning(script.text); warning != "" {
		warnings = append(warnings, warning)
	}
	warnings = append(warnings, fitNodesToTasks(job)...)
	if job.Name == "" {
		job.Name = filepath.Base(script.name)
	}
	job.Script, job.Command, job.Arguments = script.text, absolute(directory, script.path), script.arguments
	if job.Environment, err = exportedEnvironment(environ, job.ExportOption); err != nil {
		return nil, err
	}
	if job.Umask, err = fileMask(inv.Getenv("SLURM_UMASK")); err != nil {
		return nil, err
	}
	if job.SubmitHost, err = os.Hostname(); err != nil {
		job.SubmitHost = "localhost"
	}
	asUser, err := submitFor(values)
	request := &pb.SubmitRequest{RequestId: uuid.NewString(), Spec: job, AsUser: asUser}
	return &submission{request: request, values: values, warnings: warnings}, err
}

// currentDirectory is where the job starts unless --chdir says otherwise. Who
// stands in a directory that is gone may still name another.
func currentDirectory(inv *option.Invocation, inScript *directives) (string, error) {
	directory, err := os.Getwd()
	if err == nil || filepath.IsAbs(cmp.Or(inv.Text(optChdir), inScript.values().Text(optChdir))) {
		return directory, nil
	}
	return "", option.Fail(1, "the current directory cannot be told: %w\nName one with --chdir=/PATH, or submit from a directory that exists", reason(err))
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
	if !values.Given(optUID) {
		return "", nil
	}
	if os.Geteuid() != 0 {
		return "", option.Fail(1, "--uid may be used by root only; leave it out to submit as yourself")
	}
	if values.Text(optUID) == "" {
		return "", option.Fail(255, "Invalid --uid specification: type the name or number of a user")
	}
	if !utf8.ValidString(values.Text(optUID)) {
		return "", option.Fail(1, "Invalid --uid specification: %q", values.Text(optUID))
	}
	return values.Text(optUID), nil
}

// fileMask is the process's umask, or what SLURM_UMASK says in its place.
func fileMask(override string) (uint32, error) {
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
