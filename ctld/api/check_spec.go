package api

import (
	"bytes"
	"path/filepath"
	"strings"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Bounds of what a job may request: far above any machine, and low enough that
// sums and products of them never overflow.
const (
	maxTasks       = 1 << 24
	maxMemoryBytes = 1 << 60
	maxTimeMS      = 253_402_300_800_000 // the year 10000
)

// checkSpec refuses a job that makes no sense or requests what is not
// supported. What depends on policy is checked when the job is applied.
func checkSpec(job *pb.JobSpec, administrator bool) error {
	if job == nil {
		return invalid("the request holds no job")
	}
	for _, check := range []func(*pb.JobSpec) error{
		checkReserved, checkScript, checkTexts, checkEnvironment, checkFiles, checkCounts, checkGPUs, checkHosts, checkCheckpoint, checkContainer,
	} {
		if err := check(job); err != nil {
			return err
		}
	}
	if job.GetNice() < 0 && !administrator {
		return status.Error(codes.PermissionDenied, "only administrators may raise a job's priority: --nice must not be negative")
	}
	if job.GetPriority() != 0 && !administrator {
		return status.Error(codes.PermissionDenied, "Access/permission denied: only administrators may set a job's priority: leave out --priority, or lower it with --nice")
	}
	if job.GetBeginMs() < 0 || job.GetDeadlineMs() < 0 || job.GetBeginMs() > maxTimeMS || job.GetDeadlineMs() > maxTimeMS {
		return invalid("Invalid time specification: --begin and --deadline are times from 1970 to 9999")
	}
	return nil
}

// checkReserved refuses by name what is not supported.
func checkReserved(job *pb.JobSpec) error {
	if _, known := pb.Network_name[int32(job.GetNetwork())]; !known {
		return invalid("network %d is not known: use host or private", job.GetNetwork())
	}
	if _, known := pb.OpenMode_name[int32(job.GetOpenMode())]; !known {
		return invalid("open mode %d is not known: use append or truncate", job.GetOpenMode())
	}
	return nil
}

func checkScript(job *pb.JobSpec) error {
	script := job.GetScript()
	switch {
	case len(script) == 0:
		return invalid("Batch script is empty!")
	case len(script) > spec.MaxScriptBytes:
		return invalid("the batch script of %d bytes is larger than %d: put the data into a separate file", len(script), spec.MaxScriptBytes)
	case len(bytes.TrimSpace(script)) == 0:
		return invalid("Batch script contains only whitespace!")
	case !bytes.HasPrefix(script, []byte("#!")):
		return invalid("This does not look like a batch script.  The first\nline must start with #! followed by the path to an interpreter.\nFor instance: #!/bin/sh")
	case bytes.IndexByte(script, 0) >= 0:
		return invalid("The batch script holds a zero byte, so it looks like a program: submit a script that starts it")
	case bytes.Contains(script, []byte("\r\n")):
		return invalid("Batch script contains DOS line breaks (\\r\\n)\ninstead of expected UNIX line breaks (\\n): convert it, for instance with dos2unix")
	}
	return nil
}

func checkTexts(job *pb.JobSpec) error {
	for _, text := range []struct{ name, value string }{
		{"job name", job.GetName()}, {"account", job.GetAccount()}, {"QOS", job.GetQos()}, {"comment", job.GetComment()},
		{"wckey", job.GetWckey()}, {"submit host", job.GetSubmitHost()}, {"constraint", job.GetConstraint()},
	} {
		if len(text.value) > spec.MaxNameBytes {
			return invalid("the %s is longer than %d bytes: shorten it", text.name, spec.MaxNameBytes)
		}
		if strings.ContainsFunc(text.value, unicode.IsControl) {
			return invalid("the %s holds a line break or another control character: leave it out", text.name)
		}
	}
	if !spec.MailTypes(job.GetMailTypes()).Valid() {
		return invalid("--mail-type has bits without a meaning: %b", job.GetMailTypes())
	}
	if _, err := spec.ParseMailUsers(job.GetMailUser()); job.GetMailUser() != "" && err != nil {
		return invalid("Invalid --mail-user specification: %v", err)
	}
	if len(job.GetExportOption()) > spec.MaxEnvironmentBytes || strings.ContainsRune(job.GetExportOption(), 0) {
		return invalid("--export is longer than %d bytes, or holds a zero byte", spec.MaxEnvironmentBytes)
	}
	return nil
}

func checkEnvironment(job *pb.JobSpec) error {
	if len(job.GetArguments()) > spec.MaxArguments {
		return invalid("%d arguments: at most %d; pass them in a file", len(job.GetArguments()), spec.MaxArguments)
	}
	sum := 0
	for _, argument := range job.GetArguments() {
		if strings.ContainsRune(argument, 0) {
			return invalid("an argument of the script holds a zero byte")
		}
		sum += len(argument) + 1
	}
	if sum > spec.MaxArgumentBytes {
		return invalid("the script's arguments are %d bytes: at most %d; pass them in a file", sum, spec.MaxArgumentBytes)
	}
	if len(job.GetEnvironment()) > spec.MaxEnvironmentEntries {
		return invalid("%d environment variables: at most %d; pass less with --export", len(job.GetEnvironment()), spec.MaxEnvironmentEntries)
	}
	sum = 0
	for _, variable := range job.GetEnvironment() {
		if name, _, ok := strings.Cut(variable, "="); !ok || name == "" || strings.ContainsRune(variable, 0) {
			return invalid("environment variable %.64q is not NAME=VALUE without zero bytes", variable)
		}
		sum += len(variable) + 1
	}
	if sum > spec.MaxEnvironmentBytes {
		return invalid("the environment is %d bytes: at most %d; pass less with --export", sum, spec.MaxEnvironmentBytes)
	}
	return nil
}

func checkFiles(job *pb.JobSpec) error {
	if !filepath.IsAbs(job.GetWorkDirectory()) {
		return invalid("the work directory %.128q must be an absolute path", job.GetWorkDirectory())
	}
	if job.GetCommand() != "" && !filepath.IsAbs(job.GetCommand()) {
		return invalid("the script's own path %.128q must be an absolute one, or none", job.GetCommand())
	}
	if len(job.GetCommand()) > spec.MaxPathBytes || strings.ContainsFunc(job.GetCommand(), unicode.IsControl) {
		return invalid("the script's own path is longer than %d bytes, or holds a line break or another control character", spec.MaxPathBytes)
	}
	for _, path := range []struct{ name, value string }{
		{"work directory", job.GetWorkDirectory()}, {"output file", job.GetStandardOutput()},
		{"error file", job.GetStandardError()}, {"input file", job.GetStandardInput()},
	} {
		if len(path.value) > spec.MaxPathBytes {
			return invalid("the path of the %s is longer than %d bytes", path.name, spec.MaxPathBytes)
		}
		if strings.ContainsFunc(path.value, unicode.IsControl) {
			return invalid("the path of the %s holds a line break or another control character", path.name)
		}
		if _, err := spec.ExpandFileName(path.value, spec.FileNames{}); err != nil {
			return invalid("the path of the %s: %v", path.name, err)
		}
	}
	if job.GetUmask() > 0o777 {
		return invalid("umask %#o is not one", job.GetUmask())
	}
	return nil
}

func checkCounts(job *pb.JobSpec) error {
	switch {
	case job.GetMinNodes() > spec.MaxHostListNames || job.GetMaxNodes() > spec.MaxHostListNames:
		return invalid("Node count specification invalid: more than %d nodes", spec.MaxHostListNames)
	case job.GetMaxNodes() != 0 && job.GetMaxNodes() < job.GetMinNodes():
		return invalid("Node count specification invalid: at least %d and at most %d nodes", job.GetMinNodes(), job.GetMaxNodes())
	case job.GetTasks() > maxTasks || job.GetTasksPerNode() > maxTasks:
		return invalid("More processors requested than permitted: more than %d tasks", maxTasks)
	case job.GetCpusPerTask() > bounds.MaxCPUsPerNode:
		return invalid("More processors requested than permitted: %d CPUs for one task, at most %d", job.GetCpusPerTask(), bounds.MaxCPUsPerNode)
	case job.GetCpusPerGpu() > bounds.MaxCPUsPerNode:
		return invalid("More processors requested than permitted: %d CPUs for one GPU, at most %d", job.GetCpusPerGpu(), bounds.MaxCPUsPerNode)
	case job.GetTasksPerGpu() > maxTasks:
		return invalid("More processors requested than permitted: more than %d tasks", maxTasks)
	case job.GetSwitches() > spec.MaxHostListNames:
		return invalid("%d switches are asked for: at most %d", job.GetSwitches(), spec.MaxHostListNames)
	case max(job.GetMemoryPerNodeBytes(), job.GetMemoryPerCpuBytes(), job.GetMemoryPerGpuBytes()) > maxMemoryBytes:
		return invalid("Memory specification cannot be satisfied: more than %s", spec.FormatSize(maxMemoryBytes))
	case job.GetTmpPerNodeBytes() > maxMemoryBytes:
		return invalid("Temporary disk specification cannot be satisfied: more than %s", spec.FormatSize(maxMemoryBytes))
	case job.GetMemoryPerNodeBytes() != 0 && job.GetMemoryPerCpuBytes() != 0:
		return invalid("memory per node and memory per CPU exclude each other: give one of --mem and --mem-per-cpu")
	}
	return nil
}

func checkGPUs(job *pb.JobSpec) error {
	if len(job.GetGpus()) > 16 {
		return invalid("%d GPU requests in one job: at most 16", len(job.GetGpus()))
	}
	for _, gpu := range job.GetGpus() {
		switch {
		case gpu.GetScope() < pb.GpuScope_GPU_SCOPE_NODE || gpu.GetScope() > pb.GpuScope_GPU_SCOPE_TASK:
			return invalid("GPU scope %d is not known: use --gpus, --gpus-per-node or --gpus-per-task", gpu.GetScope())
		case gpu.GetSharesPerDevice() != 0:
			return invalid("shares of a GPU are not supported by this version: ask for whole GPUs")
		case gpu.GetCount() > spec.MaxGPUs:
			return invalid("%d GPUs are asked for: at most %d can be", gpu.GetCount(), spec.MaxGPUs)
		case len(gpu.GetModel()) > spec.MaxNameBytes:
			return invalid("the GPU model is longer than %d bytes", spec.MaxNameBytes)
		}
	}
	return nil
}

func checkHosts(job *pb.JobSpec) error {
	for _, list := range []struct{ name, value string }{{"--nodelist", job.GetNodeList()}, {"--exclude", job.GetExcludeNodes()}} {
		if list.value == "" {
			continue
		}
		if _, err := spec.ParseHostList(list.value); err != nil {
			return invalid("%s: Invalid node name specified: %v", list.name, err)
		}
	}
	if job.GetArray() != nil {
		if err := spec.CheckArray(job.GetArray()); err != nil {
			return invalid("Invalid job array specification: %v", err)
		}
	}
	return nil
}
