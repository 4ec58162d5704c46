package policy

import (
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// FromMessage makes a policy of the API's message; Normalize says
// whether it makes sense.
func FromMessage(message *pb.Policy) *Policy {
	policy := &Policy{
		ClusterName: message.GetClusterName(), Administrators: message.GetAdministrators(),
		MinJobAgeS: message.GetMinJobAgeS(), KillWaitS: message.GetKillWaitS(),
		MaxArraySize: message.GetMaxArraySize(), MaxJobCount: message.GetMaxJobCount(), LeaseS: message.GetLeaseS(),
		LeaseMarginS: message.GetLeaseMarginS(), ImageWait: message.GetImageWaitS(),
		RequeueExit: ranges.FromMessages(message.GetRequeueExit()), RequeueExitHold: ranges.FromMessages(message.GetRequeueExitHold()),
		PrivateData: message.GetPrivateData(), Network: NetworkRuleOf(message.GetNetwork()), Outside: outsideFromMessage(message.GetOutside()),
		GangRange:            GangRange{message.GetGangRange().GetV4(), message.GetGangRange().GetV6()},
		DefaultMemory:        DefaultMemory{PerCPU: message.GetDefaultMemoryPerCpuBytes(), PerGPU: message.GetDefaultMemoryPerGpuBytes()},
		MaxSubmitJobsPerUser: message.GetMaxSubmitJobsPerUser(), Rate: rateFromMessage(message.GetRateLimit()),
		Mail: mailFromMessage(message.GetMail()),
	}
	for _, p := range message.GetPartitions() {
		policy.Partitions = append(policy.Partitions, Partition{
			Name: p.GetName(), Nodes: p.GetNodes(), Default: p.GetIsDefault(), Up: p.GetUp(),
			MaxTimeS: p.GetMaxTimeS(), DefaultTimeS: p.GetDefaultTimeS(), PriorityTier: p.GetPriorityTier(),
			DefaultMemoryPerCPU: p.GetDefaultMemoryPerCpuBytes(), DefaultMemoryPerGPU: p.GetDefaultMemoryPerGpuBytes(), AllowRootJobs: p.GetAllowRootJobs(),
			LeaseAction: p.GetLeaseAction(), AllowGroups: p.GetAllowGroups(), Network: NetworkRuleOf(p.GetNetwork()), Outside: outsideFromMessage(p.GetOutside()),
		})
		policy.Partitions[len(policy.Partitions)-1].readShares(p)
	}
	policy.readShares(message)
	policy.readOwners(message)
	policy.readLogins(message)
	policy.Images = imagesFromMessage(message.GetImages())
	return policy
}

// PartitionMessage is a partition as clients see it.
func PartitionMessage(p *Partition) *pb.Partition {
	message := &pb.Partition{
		Name: p.Name, Nodes: p.Nodes, IsDefault: p.Default, Up: p.Up,
		MaxTimeS: p.MaxTimeS, DefaultTimeS: p.DefaultTimeS, PriorityTier: p.PriorityTier,
		DefaultMemoryPerCpuBytes: p.DefaultMemoryPerCPU, DefaultMemoryPerGpuBytes: p.DefaultMemoryPerGPU, AllowRootJobs: p.AllowRootJobs,
		LeaseAction: p.LeaseAction, AllowGroups: p.AllowGroups, Network: p.Network.String(), Outside: p.Outside.Message(),
	}
	p.writeShares(message)
	return message
}

// Message is the policy as clients see it.
func Message(p *Policy) *pb.Policy {
	message := &pb.Policy{
		ClusterName: p.ClusterName, Administrators: p.Administrators,
		MinJobAgeS: p.MinJobAgeS, KillWaitS: p.KillWaitS, MaxArraySize: p.MaxArraySize,
		MaxJobCount: p.MaxJobCount, LeaseS: p.LeaseS, LeaseMarginS: p.MarginS(), ImageWaitS: p.ImageWaitS(),
		RequeueExit: ranges.Messages(p.RequeueExit), RequeueExitHold: ranges.Messages(p.RequeueExitHold),
		PrivateData: p.PrivateData, Network: p.SiteNetwork().String(), Outside: p.Outside.Message(), GangRange: p.GangRange.message(),
		DefaultMemoryPerCpuBytes: p.DefaultMemory.PerCPU, DefaultMemoryPerGpuBytes: p.DefaultMemory.PerGPU,
		MaxSubmitJobsPerUser: p.MaxSubmitJobs(), RateLimit: p.Rate.message(),
		Mail: p.Mail.message(),
	}
	for i := range p.Partitions {
		message.Partitions = append(message.Partitions, PartitionMessage(&p.Partitions[i]))
	}
	p.writeShares(message)
	p.writeOwners(message)
	p.writeLogins(message)
	message.Images = p.Images.Message()
	return message
}
