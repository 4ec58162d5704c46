package state

import (
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// policy reads "policy main:ALL gpu:n[1-2]:root:down max-jobs=3".
func (d *dialogue) policy(a arguments) Command {
	exits := func(key string) []*pb.ArrayRange {
		codes, err := spec.ParseExitCodes(a.values[key])
		if err != nil {
			d.t.Fatal(err)
		}
		return codes
	}
	message := &pb.Policy{RequeueExit: exits("requeue-exit"), RequeueExitHold: exits("requeue-exit-hold"), LeaseS: a.number("lease"), LeaseMarginS: a.number("margin"), ImageWaitS: a.number("image-wait"), MaxJobCount: a.number("max-jobs"), MaxSubmitJobsPerUser: a.number("max-submit"), MinJobAgeS: a.number("min-job-age"), MaxArraySize: a.number("max-array-size")}
	v4, v6, _ := strings.Cut(a.values["gangs"], ",")
	message.GangRange = &pb.GangRange{V4: v4, V6: v6}
	for i, word := range a.words {
		pieces := strings.Split(word, ":")
		p := &pb.Partition{Name: pieces[0], Nodes: pieces[1], Up: true, IsDefault: i == 0, DefaultTimeS: a.number("time")}
		for _, flag := range pieces[2:] {
			p.AllowRootJobs = p.AllowRootJobs || flag == "root"
			p.NestedContainers = p.NestedContainers || flag == "nested"
			p.Up = p.Up && flag != "down"
			if whose, found := strings.CutPrefix(flag, "exclusive-"); found {
				p.Exclusive = whose
			}
			if action, found := strings.CutPrefix(flag, "lease-"); found {
				p.LeaseAction = action
			}
		}
		message.Partitions = append(message.Partitions, p)
	}
	for _, owner := range strings.Fields(strings.ReplaceAll(a.values["owners"], ";", " ")) {
		account, nodes, _ := strings.Cut(owner, ":")
		message.Owners = append(message.Owners, &pb.Owner{Account: account, Nodes: nodes})
	}
	for _, borrower := range strings.Fields(strings.ReplaceAll(a.values["borrowers"], ";", " ")) {
		account, tres, _ := strings.Cut(borrower, ":")
		message.Borrowers = append(message.Borrowers, &pb.Borrower{Account: account, GrpTres: tres})
	}
	return ApplyPolicy{Policy: *policy.FromMessage(message)}
}
