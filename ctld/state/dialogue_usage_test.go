package state

import (
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// bill reads "bill main=CPU:1.0+Mem:0.25G half-life=3600 max-tres reset=DAILY".
func (d *dialogue) bill(a arguments) Command {
	message := policy.Message(d.state.View().Policy())
	for _, p := range message.Partitions {
		if text, given := a.values[p.Name]; given {
			weights, err := spec.ParseBillingWeights(strings.NewReplacer(":", "=", "+", ",").Replace(text))
			if err != nil {
				d.t.Fatal(err)
			}
			p.TresBillingWeights = weights
		}
	}
	if a.values["half-life"] != "" {
		message.Priority.DecayHalfLifeS = a.number("half-life")
	}
	if license, count, found := strings.Cut(a.values["license"], ":"); found {
		n, _ := spec.ParseSize(count, 1)
		message.Licenses = []*pb.License{{Name: license, Count: uint32(n)}}
	}
	message.Priority.MaxTres = a.is("max-tres")
	message.Priority.UsageResetPeriod = a.values["reset"]
	return ApplyPolicy{Policy: *policy.FromMessage(message)}
}

// usage prints what is stored, and what the scheduler is told.
func (d *dialogue) usage() string {
	v := d.state.View()
	var out strings.Builder
	for _, association := range v.AccountTree() {
		describeUsage(&out, association.Account+" "+association.User, &association.Usage)
	}
	for qos := range v.AllQOS() {
		describeUsage(&out, "qos "+qos.Name, &qos.Usage)
	}
	snapshot := v.SchedSnapshot(d.nowMS)
	for _, a := range snapshot.Associations {
		fmt.Fprintf(&out, "now %s %s: %s", a.Account, a.User, seconds(a.UsageRaw))
		if a.Used.TRESMinutes != nil {
			fmt.Fprintf(&out, ", %d minutes", a.Used.WallMinutes)
			for t, name := range snapshot.TRES {
				if minutes := a.Used.TRESMinutes[t]; minutes > 0 {
					fmt.Fprintf(&out, " %s=%d", name, minutes)
				}
			}
		}
		out.WriteString("\n")
	}
	return out.String()
}

func describeUsage(out *strings.Builder, whose string, usage *Usage) {
	if usage.AtMS == 0 {
		return
	}
	fmt.Fprintf(out, "%s: billed %s, ran %s;", strings.TrimSpace(whose), seconds(usage.Raw), seconds(usage.WallSeconds))
	for _, amount := range usage.TRESSeconds {
		fmt.Fprintf(out, " %s=%s", amount.Name, seconds(int64(amount.Count)))
	}
	out.WriteString("\n")
}

// seconds are units of usage, to a hundredth.
func seconds(units int64) string { return fmt.Sprintf("%.2f", float64(units)/1024) }
