package state

import (
	"fmt"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	words "github.com/gleaner-hpc/gleaner/proto/spec"
)

// ChangeFromMessage makes the record of a change. Its error is for the user.
func ChangeFromMessage(m *pb.JobChange) (JobChange, error) {
	c := JobChange{
		TimeLimitS: m.TimeLimitS, AddTimeS: m.GetAddTimeS(), Partitions: m.GetPartitions(), QOS: m.Qos, Account: m.Account,
		Priority: m.Priority, Nice: m.Nice, BeginMS: m.BeginMs, DeadlineMS: m.DeadlineMs,
		MinNodes: m.MinNodes, MaxNodes: m.MaxNodes, Tasks: m.Tasks, TasksPerNode: m.TasksPerNode, CPUsPerTask: m.CpusPerTask,
		MemoryPerNode: m.MemoryPerNodeBytes, MemoryPerCPU: m.MemoryPerCpuBytes, TmpPerNode: m.TmpPerNodeBytes,
		Constraint: m.Constraint, NodeList: m.NodeList, ExcludeNodes: m.ExcludeNodes,
		Name: m.Name, Comment: m.Comment, WCKey: m.Wckey, Requeue: m.Requeue, MaxRunning: m.MaxRunning,
		Switches: m.Switches, SwitchesWaitS: m.SwitchesWaitS, Exclusive: m.Exclusive, ExclusiveUser: m.ExclusiveUser,
		KillOnInvalidDependency: m.KillOnInvalidDependency, ResetAge: m.GetResetAccrueTime(),
		MailTypes: m.MailTypes, MailUser: m.MailUser, TimeMinS: m.TimeMinS,
	}
	switch {
	case m.Network == nil:
	case m.GetNetwork() == pb.Network_NETWORK_HOST, m.GetNetwork() == pb.Network_NETWORK_PRIVATE:
		c.Network = m.Network
	default:
		return JobChange{}, fmt.Errorf("network %d is not known: use host or private", m.GetNetwork())
	}
	if m.Gpus != nil {
		c.GPUs = &GPURequests{Requests: gpuRecords(m.Gpus.GetRequests())}
	}
	if m.Licenses != nil {
		licenses, err := licensesFromText(m.GetLicenses())
		if err != nil {
			return JobChange{}, err
		}
		c.Licenses = &LicenseRequests{Requests: licenses}
	}
	if m.Reservations != nil {
		c.Reservations = &Reservations{Names: strings.FieldsFunc(m.GetReservations(), func(r rune) bool { return r == ',' })}
	}
	if m.Checkpoint != nil {
		mode, err := checkpointMode(m.GetCheckpoint())
		if err != nil {
			return JobChange{}, err
		}
		c.Checkpoint = &mode
	}
	if m.Dependency != nil {
		asked, err := words.ParseDependencies(m.GetDependency())
		if err != nil {
			return JobChange{}, err
		}
		dependencies := dependenciesOf(asked)
		c.Dependencies = &dependencies
	}
	return c, nil
}

func gpuRecords(gpus []*pb.GpuRequest) []GPURequest {
	var records []GPURequest
	for _, gpu := range gpus {
		records = append(records, GPURequest{
			Scope: gpu.GetScope(), Count: gpu.GetCount(), Model: gpu.GetModel(), Shares: gpu.GetSharesPerDevice(),
		})
	}
	return records
}
