package state

import (
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file has the words of dialogues about the terms on which owners lend their nodes:
//
//	lend n1 n2 [reset] [notice=MS] [unbounded=no] [hours=TEXT] [zone=NAME] [gpus=PERCENT] [accounts=A,B]
//	     [parked=BYTES] [memory=BYTES] [tmp=BYTES] [max-time=SECONDS] [triggers=gpu,login] [quiet=SECONDS]
//	     [guests=private-only|private|host] [reach=DESTINATIONS] [network=BYTES] [power=WATTS] [io=BYTES] [allow=PATTERN] [coordinator=NAME] [privileged]
//	register … [bounds=network,power,io] [least-power=WATTS] [cannot=WHY]: which of these the node can keep
//	try-lend        the same, as a dry run
//	owner-report chem [since=+SECONDS] [until=+SECONDS]
//	register … [routes=RANGES]: where the node's routes lead
//	networks        which network jobs have, and where their orders let them connect to
//	lent            the terms of all nodes that have some

// lendWords are the settings by their words here.
var lendWords = []struct{ word, setting string }{
	{"notice", "notice_ms"}, {"unbounded", "unbounded"}, {"hours", "hours"}, {"zone", "time_zone"}, {"gpus", "gpu_percent"}, {"accounts", "accounts"},
	{"parked", "parked_memory_bytes"}, {"memory", "guest_memory_bytes"}, {"tmp", "guest_tmp_bytes"}, {"max-time", "max_unsaved_s"},
	{"triggers", "triggers"}, {"quiet", "quiet_s"}, {"else", "elsewhere"},
	{"guests", "network"}, {"reach", "network_allow"}, {"network", "guest_network_bytes"}, {"power", "guest_power_watts"}, {"io", "guest_io_bytes"}, {"allow", "image_rules"}, {"nested", "nested_containers"},
}

func (d *dialogue) lend(a arguments) SetLending {
	c := SetLending{
		Reset: a.is("reset"), User: a.values["coordinator"], Coordinator: a.values["coordinator"], Privileged: a.is("privileged"),
		Lending: Lending{
			NoticeMS: a.number("notice"), Unbounded: a.values["unbounded"] != "no", Hours: a.values["hours"], TimeZone: a.values["zone"], GPUs: a.number("gpus"),
			ParkedMemoryBytes: a.size("parked"), GuestMemoryBytes: a.size("memory"), GuestTmpBytes: a.size("tmp"), MaxUnsavedS: a.number("max-time"), QuietS: a.number("quiet"),
			GuestNetwork: a.size("network"), GuestPower: a.number("power"), GuestIO: a.size("io"),
		},
	}
	for _, word := range a.words {
		if word != "reset" && word != "privileged" {
			c.Names = append(c.Names, word)
		}
	}
	c.Lending.Nested = a.values["nested"] == "yes"
	c.Lending.Network = policy.NetworkRuleOf(a.values["guests"])
	if list := a.values["reach"]; list != "" {
		c.Lending.Allow = allowOf(strings.Split(list, ","))
	}
	if list := a.values["accounts"]; list != "" {
		c.Lending.Accounts = strings.Split(list, ",")
	}
	if pattern := a.values["allow"]; pattern != "" {
		c.Lending.Images = &policy.Images{Allow: []string{pattern}}
	}
	for _, word := range strings.Split(a.values["triggers"], ",") {
		if trigger := map[string]pb.ReclaimTrigger{"gpu": pb.ReclaimTrigger_RECLAIM_TRIGGER_GPU_PROCESS, "login": pb.ReclaimTrigger_RECLAIM_TRIGGER_LOGIN, "hours": pb.ReclaimTrigger_RECLAIM_TRIGGER_HOURS}[word]; trigger != 0 {
			c.Lending.Triggers = append(c.Lending.Triggers, trigger)
		}
	}
	for _, known := range lendWords {
		if _, given := a.values[known.word]; given {
			c.Settings = append(c.Settings, known.setting)
		}
	}
	return c
}

func (d *dialogue) tryLend(a arguments) string {
	nodes, refused := d.state.View().TryLending(d.lend(a), d.nowMS)
	if refused != nil {
		return fmt.Sprintf("would be refused (%d): %s\n", refused.Code, refused.Message)
	}
	var out strings.Builder
	for _, node := range nodes {
		out.WriteString(lentText(node.Name, node.Lending))
	}
	return out.String()
}

func (d *dialogue) lent() string {
	var out strings.Builder
	for node := range d.state.View().Nodes() {
		if node.Lending != nil {
			out.WriteString(lentText(node.Name, node.Lending.Message()))
		}
	}
	return out.String()
}

func lentText(name string, l *pb.Lending) string {
	if l == nil {
		return name + " on the default terms\n"
	}
	bounds := ""
	if l.GuestNetworkBytes != 0 || l.GuestPowerWatts != 0 || l.GuestIoBytes != 0 {
		bounds = fmt.Sprintf(" network %d power %d io %d", l.GuestNetworkBytes, l.GuestPowerWatts, l.GuestIoBytes)
	}
	if l.Network != "" || len(l.NetworkAllow) > 0 {
		bounds += fmt.Sprintf(" guests %q allow %v", l.Network, l.NetworkAllow)
	}
	if l.NestedContainers {
		bounds += " nested"
	}
	return fmt.Sprintf("%s of %q by %q: notice %d unbounded %v hours %q zone %q gpus %d%% accounts %v parked %d memory %d tmp %d max-time %d triggers %v quiet %d%s\n",
		name, l.Owner, l.By, l.NoticeMs, l.Unbounded, l.Hours, l.TimeZone, l.GpuPercent, l.Accounts, int64(l.ParkedMemoryBytes), int64(l.GuestMemoryBytes), int64(l.GuestTmpBytes), int32(l.MaxUnsavedS), l.Triggers, l.QuietS, bounds)
}

// networks shows which network jobs have, where their orders let them connect to, and
// whether they may make containers of their own.
func (d *dialogue) networks() string {
	v := d.state.View()
	var out strings.Builder
	for job := range v.LiveJobs() {
		fmt.Fprintf(&out, "%d %s", job.ID, strings.TrimPrefix(v.JobMessage(job, Overlay{}, JobDetail{}).Spec.Network.String(), "NETWORK_"))
		if job.Phase == Running {
			for i := range job.Run.Allocs {
				order, err := v.StartAlloc(job.ID, job.Run.Allocs[i].Node)
				if err != nil {
					d.t.Fatal(err)
				}
				fmt.Fprintf(&out, " on %s: %s %s %v", order.Node, strings.TrimPrefix(order.Spec.Network.String(), "NETWORK_"), strings.TrimSpace(order.Network+" "+order.Network6), order.Outside.GetAllow())
				if order.NestedContainers {
					out.WriteString(" nested")
				}
			}
		}
		out.WriteString("\n")
	}
	return out.String()
}

func (d *dialogue) ownerReport(a arguments) string {
	since, until := int64(0), d.nowMS
	if a.values["since"] != "" {
		since = d.moment(a, "since")
	}
	if a.values["until"] != "" {
		until = d.moment(a, "until")
	}
	r := d.state.View().OwnerReport(a.words[0], since, until, d.nowMS)
	var out strings.Builder
	fmt.Fprintf(&out, "%s: kept %d early %d open %d\n", r.Owner, r.Kept, r.Early, r.Open)
	for _, m := range r.Missed {
		fmt.Fprintf(&out, "  missed %d: %s\n", m.Count, m.Cause)
	}
	for _, u := range r.Lent {
		fmt.Fprintf(&out, "  lent to %q of %q: GPU %d ms, CPU %d ms, billed %d\n", u.Account, u.Model, u.GpuMs, u.CpuMs, u.Billed)
	}
	for _, u := range r.Borrowed {
		fmt.Fprintf(&out, "  borrowed from %q of %q: GPU %d ms, CPU %d ms, billed %d\n", u.Account, u.Model, u.GpuMs, u.CpuMs, u.Billed)
	}
	return out.String()
}

// boundWords has a node say which bounds it can keep.
func boundWords(inventory *pb.Inventory, a arguments) {
	if routes := a.values["routes"]; routes != "" {
		inventory.Routes = strings.Split(routes, ",")
	}
	can := map[string]bool{}
	for _, word := range strings.Split(a.values["bounds"], ",") {
		can[word] = true
	}
	why := a.values["cannot"]
	inventory.BoundsNetwork, inventory.NoNetworkBound = can["network"], why
	inventory.BoundsPower, inventory.NoPowerBound, inventory.LeastPowerWatts = can["power"], why, a.number("least-power")
	inventory.BoundsIo, inventory.NoIoBound = can["io"], why
}
