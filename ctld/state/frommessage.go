package state

import (
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	words "github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file turns the API's messages into commands. message.go does the
// opposite.

// SubmitFromSpec makes the command of a submission. Its error is for the user:
// it names any field that is not supported. What depends on the state is
// checked when the command is applied.
func SubmitFromSpec(spec *pb.JobSpec, owner *pb.Identity) (SubmitJob, error) {
	if err := checkCarriedOut(spec); err != nil {
		return SubmitJob{}, err
	}
	environment, err := joinEnvironment(spec.GetEnvironment())
	if err != nil {
		return SubmitJob{}, err
	}
	dependencies, err := words.ParseDependencies(spec.GetDependency())
	if err != nil {
		return SubmitJob{}, err
	}
	record := Spec{
		Account: strings.ToLower(spec.GetAccount()), QOS: strings.ToLower(spec.GetQos()), // as gacctmgr names them
		Partitions: spec.GetPartitions(), WCKey: spec.GetWckey(),
		OpenMode: spec.GetOpenMode(), ExportOption: spec.GetExportOption(),
		SubmitHost: spec.GetSubmitHost(), Umask: spec.GetUmask(),
		MinNodes: spec.GetMinNodes(), MaxNodes: spec.GetMaxNodes(), Tasks: spec.GetTasks(),
		TasksPerNode: spec.GetTasksPerNode(), CPUsPerTask: spec.GetCpusPerTask(),
		MemoryPerNode: spec.GetMemoryPerNodeBytes(), MemoryPerCPU: spec.GetMemoryPerCpuBytes(), TmpPerNode: spec.GetTmpPerNodeBytes(),
		TimeLimitS: spec.GetTimeLimitS(), TimeMinS: spec.GetTimeMinS(), NodeList: spec.GetNodeList(), ExcludeNodes: spec.GetExcludeNodes(),
		Constraint: spec.GetConstraint(), Exclusive: spec.GetExclusive(),
		Hold: spec.GetHold() || spec.Priority != nil && spec.GetPriority() == 0, KillOnInvalidDependency: spec.GetKillOnInvalidDependency(),
		Requeue: spec.GetRequeue(), Nice: spec.GetNice(), Network: spec.GetNetwork(),
		ArrayTasks: ranges.FromMessages(spec.GetArray().GetRanges()), MaxRunning: spec.GetArray().GetMaxRunning(), Reservations: spec.GetReservations(),
		MailTypes: spec.GetMailTypes(), MailUser: spec.GetMailUser(),
	}
	record.placementFromMessage(spec)
	record.containerFromMessage(spec)
	record.stagingFromMessage(spec)
	if err := record.checkpointFromMessage(spec); err != nil {
		return SubmitJob{}, err
	}
	for _, gpu := range spec.GetGpus() {
		record.GPUs = append(record.GPUs, GPURequest{
			Scope: gpu.GetScope(), Count: gpu.GetCount(), Model: gpu.GetModel(), Shares: gpu.GetSharesPerDevice(),
		})
	}
	if record.Licenses, err = licensesFromText(spec.GetLicenses()); err != nil {
		return SubmitJob{}, err
	}
	return SubmitJob{
		Spec:         record,
		Owner:        ownerRecord(owner),
		Dependencies: dependenciesOf(dependencies), BeginMS: spec.GetBeginMs(), DeadlineMS: spec.GetDeadlineMs(),
		FixedPriority: spec.GetPriority(),
		Script:        spec.GetScript(),
		Environment:   environment,
		Own: Own{
			Name: spec.GetName(), Comment: spec.GetComment(), WorkDirectory: spec.GetWorkDirectory(),
			StandardOutput: spec.GetStandardOutput(), StandardError: spec.GetStandardError(),
			StandardInput: spec.GetStandardInput(), Command: spec.GetCommand(), Arguments: spec.GetArguments(),
		},
	}, nil
}

func ownerRecord(owner *pb.Identity) Owner {
	return Owner{
		UID: owner.GetUid(), GID: owner.GetGid(), Groups: owner.GetGroups(), User: owner.GetUser(),
		Group: owner.GetGroup(), Home: owner.GetHome(), Shell: owner.GetShell(), UIDDomain: owner.GetUidDomain(),
	}
}

// checkCarriedOut refuses by name what is reserved for later.
func checkCarriedOut(spec *pb.JobSpec) error {
	if err := checkStaging(spec); err != nil {
		return err
	}
	if spec.GetArray() != nil && len(spec.GetArray().GetRanges()) == 0 {
		return fmt.Errorf("invalid array: it names no task, type indices such as 0-9")
	}
	return nil
}

// joinEnvironment makes one blob of NAME=VALUE entries: each is followed by a
// zero byte, as in /proc/PID/environ (proc(5)).
func joinEnvironment(entries []string) ([]byte, error) {
	size := 0
	for _, entry := range entries {
		if strings.IndexByte(entry, 0) >= 0 || strings.IndexByte(entry, '=') < 1 {
			return nil, fmt.Errorf("environment entry %q is not NAME=VALUE", bounds.Clip(entry, 64))
		}
		size += len(entry) + 1
	}
	blob := make([]byte, 0, size)
	for _, entry := range entries {
		blob = append(append(blob, entry...), 0)
	}
	return blob, nil
}

func splitEnvironment(blob []byte) []string {
	if len(blob) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(blob), "\x00"), "\x00")
}

// TargetsFromTasks makes targets of array tasks named in a request.
func TargetsFromTasks(tasks []*pb.ArrayTasks) []Target {
	targets := make([]Target, 0, len(tasks))
	for _, t := range tasks {
		targets = append(targets, Target{Job: t.GetJob(), Tasks: ranges.FromMessages(t.GetRanges())})
	}
	return targets
}

// ReportFromMessage makes the record of a node's report on an allocation.
func ReportFromMessage(node string, ended *pb.AllocEnded) AllocReport {
	return AllocReport{
		Job: ended.GetAlloc().GetJob(), Epoch: ended.GetAlloc().GetEpoch(), Node: node,
		Cause: ended.GetCause(), ExitCode: ended.GetExitCode(), ExitSignal: ended.GetExitSignal(),
		Detail:          bounds.Clip(strings.ToValidUTF8(ended.GetDetail(), "?"), bounds.MaxTextBytes),
		PeakMemoryBytes: ended.GetUsage().GetPeakMemoryBytes(), CPUNS: ended.GetUsage().GetCpuNs(),
		Freed: freedFromMessage(ended.GetFreed()), Steps: stepsFromMessage(ended.GetSteps()),
	}
}
