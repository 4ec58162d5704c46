package main

import (
	"errors"
	"fmt"
	"os"
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
	request, values, err := submitRequest(inv)
	if err != nil {
		return err
	}
	for _, warning := range fitNodesToTasks(request.Spec) {
		fmt.Fprintf(inv.Stderr, "%s: warning: %s\n", inv.Command.Program(), warning)
	}
	controller, err := connect(inv)
	if err != nil {
		return err
	}
	defer controller.Close()
	if values.Given(optVerbose) {
		fmt.Fprintf(inv.Stderr, "%s: sending %q with %d bytes of script and %d variables to %v\n", inv.Command.Program(),
			request.Spec.Name, len(request.Spec.Script), len(request.Spec.Environment), controller.targets)
	}
	answer, err := call(inv.Context, controller, controller.Submit, request)
	if err != nil {
		return submissionFailed(err)
	}
	for _, warning := range answer.GetWarnings() {
		fmt.Fprintf(inv.Stderr, "%s: warning: %s\n", inv.Command.Program(), format.Printable(warning))
	}
	switch {
	case values.Given(optQuiet):
	case values.Given(optParsable):
		_, err = fmt.Fprintf(inv.Stdout, "%d\n", answer.GetJobId())
	default:
		_, err = fmt.Fprintf(inv.Stdout, "Submitted batch job %d\n", answer.GetJobId())
	}
	if err != nil {
		return option.Fail(1, "job %d was submitted, but its number could not be printed: %w", answer.GetJobId(), err)
	}
	if values.Given(optWait) {
		return waitForJob(inv.Context, controller, answer.GetJobId())
	}
	return nil
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

// submitRequest is the whole request that the command line, the environment
// and the script make, and the values it was made of.
func submitRequest(inv *option.Invocation) (*pb.SubmitRequest, option.Values, error) {
	script, err := loadScript(inv)
	if err != nil {
		return nil, nil, err
	}
	inScript, err := scriptOptions(inv.Command, script.text)
	if err != nil {
		return nil, nil, err
	}
	inEnvironment, err := inv.Command.FromEnvironment(inv.Lookup)
	if err != nil {
		return nil, nil, err
	}
	values, err := layered(inv.Values, inEnvironment, inScript)
	if err != nil {
		return nil, nil, err
	}
	directory, err := os.Getwd()
	if err != nil {
		return nil, nil, option.Fail(1, "the current directory cannot be told: %w; name one with --chdir from a directory that exists", err)
	}
	job, err := buildSpec(values, directory)
	if err != nil {
		return nil, nil, withSource(err, directory, inv.Values, inEnvironment, inScript)
	}
	if job.Name == "" {
		job.Name = filepath.Base(script.name)
	}
	job.Script, job.Command, job.Arguments = script.text, absolute(directory, script.path), script.arguments
	if job.Environment, err = exportedEnvironment(inv.Environ, job.ExportOption); err != nil {
		return nil, nil, err
	}
	if job.Umask, err = fileMask(inv.Getenv("SLURM_UMASK")); err != nil {
		return nil, nil, err
	}
	if job.SubmitHost, err = os.Hostname(); err != nil {
		job.SubmitHost = "localhost"
	}
	if err := checkText(job); err != nil {
		return nil, nil, err
	}
	asUser, err := submitFor(values)
	return &pb.SubmitRequest{RequestId: uuid.NewString(), Spec: job, AsUser: asUser}, values, err
}

// checkText refuses what could not be sent: requests hold text in UTF-8, but
// variables, arguments and file names may hold any bytes.
func checkText(job *pb.JobSpec) error {
	for _, variable := range job.Environment {
		if name := nameOf(variable); !utf8.ValidString(variable) {
			return option.Fail(1, "variable %q holds bytes that are no UTF-8 text, and cannot be handed to the job: unset it, or name others with --export", name)
		}
	}
	for _, argument := range job.Arguments {
		if !utf8.ValidString(argument) {
			return option.Fail(1, "argument %q of the script holds bytes that are no UTF-8 text: hand it over in a file", argument)
		}
	}
	for _, text := range []struct{ what, value string }{
		{"the job's name", job.Name}, {"--account", job.Account}, {"--comment", job.Comment}, {"--wckey", job.Wckey}, {"--constraint", job.Constraint},
		{"--partition", strings.Join(job.Partitions, ",")}, {"--export", job.ExportOption}, {"the work directory", job.WorkDirectory},
		{"--output", job.StandardOutput}, {"--error", job.StandardError}, {"--input", job.StandardInput}, {"the script's path", job.Command},
		{"--nodelist", job.NodeList}, {"--exclude", job.ExcludeNodes}, {"this machine's name", job.SubmitHost},
	} {
		if !utf8.ValidString(text.value) {
			return option.Fail(1, "%s, %q, holds bytes that are no UTF-8 text: choose another", text.what, text.value)
		}
	}
	return nil
}

// absolute is a path as seen from a directory; no path stays none.
func absolute(directory, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(directory, path)
}

// withSource adds to an error about the values where the bad one stands, if
// not on the command line: who typed nothing of the kind should not have to
// search.
func withSource(err error, directory string, commandLine, inEnvironment, inScript option.Values) error {
	layers := []option.Values{commandLine}
	for _, source := range []struct {
		values option.Values
		where  string
	}{
		{inEnvironment, "It comes from a variable in the environment: see env | grep -E 'GSUB_|SBATCH_'"},
		{inScript, "It stands on a #GSUB or #SBATCH line of the script"},
	} {
		values, conflict := layered(layers...)
		if conflict != nil {
			return err
		}
		if _, broken := buildSpec(values, directory); broken != nil {
			return err // already without this layer
		}
		layers = append(layers, source.values)
		if values, conflict = layered(layers...); conflict != nil {
			return err
		}
		failure := (*option.Failure)(nil)
		if _, broken := buildSpec(values, directory); broken != nil && errors.As(err, &failure) {
			return &option.Failure{Status: failure.Status, Message: failure.Message + "\n" + source.where, Cause: failure.Cause}
		}
	}
	return err
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
