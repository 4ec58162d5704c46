package policy

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// sharesMessage says something of all that can be said of the order of jobs.
func sharesMessage() *pb.Policy {
	return &pb.Policy{
		Partitions: []*pb.Partition{{
			Name: "gpu", Nodes: "ALL", Up: true, PriorityJobFactor: 5, Qos: "gpus", PreemptMode: "cancel", GraceTimeS: 60,
			TresBillingWeights: map[string]float64{"cpu": 1, "mem": 0.25, "gres/gpu:a100": 4.5},
			AllowAccounts:      []string{"physics", "chemistry"}, AllowQos: []string{"high"}, Exclusive: "user",
		}, {Name: "main", Nodes: "ALL", Up: true}},
		Priority: &pb.PriorityPolicy{
			WeightAge: 1000, WeightAssoc: 1, WeightFairShare: 10000, WeightJobSize: 2, WeightPartition: 3, WeightQos: 4,
			WeightTres: map[string]uint32{"cpu": 7, "gres/gpu": 8, "license/matlab": 9}, MaxAgeS: 14 * 86400,
			DecayHalfLifeS: sched.Unlimited, FavorSmall: true, SmallRelativeToTime: true, MaxTres: true,
		},
		Preempt:    &pb.PreemptPolicy{Type: "qos", Mode: "requeue", ExemptTimeS: 60},
		Licenses:   []*pb.License{{Name: "matlab", Count: 3}, {Name: "abaqus", Count: 2}},
		Switches:   []*pb.Switch{{Name: "top", Switches: "s[1-2]"}, {Name: "s1", Nodes: "n[1-2]"}, {Name: "s2", Nodes: "n3"}},
		Accounting: &pb.AccountingPolicy{Safe: true, EnforceQos: true},
		Owners:     []*pb.Owner{{Account: "physics", Nodes: "n3,n1"}, {Account: "Chemistry", Nodes: "n2"}},
	}
}

// TestPolicyGoesThereAndBack: what clients are shown, applied again, changes
// nothing.
func TestPolicyGoesThereAndBack(t *testing.T) {
	reset := sharesMessage()
	reset.Priority.UsageResetPeriod = "YEARLY"
	for name, message := range map[string]*pb.Policy{"default": Message(Default()), "all": sharesMessage(), "with resets": reset} {
		once, err := Normalize(FromMessage(message))
		if err != nil {
			t.Fatal(name, err)
		}
		again, err := Normalize(FromMessage(Message(once)))
		if err != nil {
			t.Fatal(name, err)
		}
		if changes := Diff(once, again); len(changes) > 0 {
			t.Errorf("%s: %v", name, changes)
		}
		if d := cmp.Diff(once, again, cmpopts.IgnoreUnexported(Policy{}, Partition{}), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestPolicyDifference: each setting has a line of its own.
func TestPolicyDifference(t *testing.T) {
	after, err := Normalize(FromMessage(sharesMessage()))
	if err != nil {
		t.Fatal(err)
	}
	before, err := Normalize(FromMessage(&pb.Policy{Partitions: []*pb.Partition{{Name: "gpu", Nodes: "ALL", Up: true}, {Name: "main", Nodes: "ALL", Up: true}}}))
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, change := range Diff(before, after) {
		got = append(got, change.Path+": "+change.Before+" -> "+change.After)
	}
	want := []string{
		"priority.weight_age: 0 -> 1000", "priority.weight_assoc: 0 -> 1", "priority.weight_fair_share: 0 -> 10000",
		"priority.weight_job_size: 0 -> 2", "priority.weight_partition: 0 -> 3", "priority.weight_qos: 0 -> 4",
		"priority.max_age: 7-00:00:00 -> 14-00:00:00", "priority.decay_half_life: 7-00:00:00 -> UNLIMITED",
		"priority.favor_small: false -> true", "priority.small_relative_to_time: false -> true", "priority.max_tres: false -> true",
		"priority.weight_tres.cpu:  -> 7", "priority.weight_tres.gres/gpu:  -> 8", "priority.weight_tres.license/matlab:  -> 9",
		"preempt.type: none -> qos", "preempt.mode: off -> requeue", "preempt.exempt_time_s: 0 -> 60", "accounting.enforce:  -> associations,limits,qos,safe",
		"licenses.abaqus.count:  -> 2", "licenses.matlab.count:  -> 3",
		"owners.chemistry.nodes:  -> n2", "owners.physics.nodes:  -> n[1,3]",
		"switches.s1.nodes:  -> n[1-2]", "switches.s2.nodes:  -> n3", "switches.top.switches:  -> s[1-2]",
		"partitions.gpu.priority_job_factor:  -> 5", "partitions.gpu.tres_billing_weights:  -> cpu=1,gres/gpu:a100=4.5,mem=0.25G",
		"partitions.gpu.qos:  -> gpus", "partitions.gpu.preempt_mode:  -> cancel", "partitions.gpu.grace_time_s:  -> 60",
		"partitions.gpu.allow_accounts:  -> chemistry,physics", "partitions.gpu.allow_qos:  -> high", "partitions.gpu.exclusive:  -> user",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestPolicySharesRefused: each refusal says what to write instead.
func TestPolicySharesRefused(t *testing.T) {
	for want, change := range map[string]func(*pb.Policy){
		"add up to 4294970329, but the highest priority there is is 4294967295": func(p *pb.Policy) { p.Priority.WeightAge = math.MaxUint32 - 7000 },
		"priority.decay_half_life 5 s: nothing would be remembered":             func(p *pb.Policy) { p.Priority.DecayHalfLifeS = 5 },
		"priority.usage_reset_period: use one of NONE, NOW, DAILY":              func(p *pb.Policy) { p.Priority.UsageResetPeriod = "x" },
		"priority.weight_tres: there is no TRES \"gpu\"":                        func(p *pb.Policy) { p.Priority.WeightTres["gpu"] = 1 },
		"priority.weight_tres: write \"CPU\" as \"cpu\"":                        func(p *pb.Policy) { p.Priority.WeightTres["CPU"] = 1 },
		"priority.weight_tres: billing has no weight":                           func(p *pb.Policy) { p.Priority.WeightTres["billing"] = 1 },
		"there is no license ansys: add it as [[license]]":                      func(p *pb.Policy) { p.Priority.WeightTres["license/ansys"] = 1 },
		"the weight of cpu is no number from 0 to 1000000":                      func(p *pb.Policy) { p.Partitions[0].TresBillingWeights["cpu"] = math.NaN() },
		"the weight of mem is no number":                                        func(p *pb.Policy) { p.Partitions[0].TresBillingWeights["mem"] = 1e-9 },
		"the weight of cpu is above 1000000: divide all of them":                func(p *pb.Policy) { p.Partitions[0].TresBillingWeights["cpu"] = 1_500_000 },
		"partition gpu: priority_job_factor 70000 is too high":                  func(p *pb.Policy) { p.Partitions[0].PriorityJobFactor = 70000 },
		"partition gpu: preempt_mode: use off, cancel":                          func(p *pb.Policy) { p.Partitions[0].PreemptMode = "kill" },
		"partition gpu: exclusive: use node or user":                            func(p *pb.Policy) { p.Partitions[0].Exclusive = "yes" },
		"account or QOS name \"a b\"":                                           func(p *pb.Policy) { p.Partitions[0].AllowAccounts = []string{"a b"} },
		"preempt.type: use none, partition or qos":                              func(p *pb.Policy) { p.Preempt.Type = "tier" },
		"preempt.mode: use off, cancel":                                         func(p *pb.Policy) { p.Preempt.Mode = "kill" },
		"preempt.type = \"qos\" needs a preempt.mode other than off":            func(p *pb.Policy) { p.Preempt.Mode = "off" },
		"preempt.mode = \"requeue\" needs a preempt.type":                       func(p *pb.Policy) { p.Preempt.Type = "" },
		"license matlab is there twice":                                         func(p *pb.Policy) { p.Licenses[1].Name = "matlab" },
		"license name \"a b\"":                                                  func(p *pb.Policy) { p.Licenses[1].Name = "a b" },
		"license abaqus: count 4294967295 is too high":                          func(p *pb.Policy) { p.Licenses[1].Count = math.MaxUint32 },
		"switch s1 is there twice":                                              func(p *pb.Policy) { p.Switches[2].Name = "s1" },
		"switch s2: give it either nodes or switches":                           func(p *pb.Policy) { p.Switches[2].Switches = "s1" },
		"switch s1: give it either nodes or switches":                           func(p *pb.Policy) { p.Switches[1].Nodes = "" },
		"switch top: there is no switch \"s9\"":                                 func(p *pb.Policy) { p.Switches[0].Switches = "s9" },
		"switch top: there is no switch \"s[\"":                                 func(p *pb.Policy) { p.Switches[0].Switches = "s[" },
		"node n1 is under two leaf switches, s1 and s2":                         func(p *pb.Policy) { p.Switches[2].Nodes = "n[1,3]" },
		"switch s1 is under two switches, t2 and top": func(p *pb.Policy) {
			p.Switches = append(p.Switches, &pb.Switch{Name: "t2", Switches: "s1"})
		},
		"the switches a, b are under each other in a circle": func(p *pb.Policy) {
			p.Switches = append(p.Switches, &pb.Switch{Name: "a", Switches: "b"}, &pb.Switch{Name: "b", Switches: "a"})
		},
		"owner: account name \"a b\"":                            func(p *pb.Policy) { p.Owners[0].Account = "a b" },
		"owner root: all accounts are below it":                  func(p *pb.Policy) { p.Owners[0].Account = "root" },
		"account physics is an owner twice: write one [[owner]]": func(p *pb.Policy) { p.Owners[1].Account = "Physics" },
		"owner physics: nodes: list \"n[\"":                      func(p *pb.Policy) { p.Owners[0].Nodes = "n[" },
		"owner physics: name the nodes in a host list":           func(p *pb.Policy) { p.Owners[0].Nodes = "" },
		"owner chemistry: name the nodes in a host list":         func(p *pb.Policy) { p.Owners[1].Nodes = "all" },
		"owner physics: nodes: host name \"né\"":                 func(p *pb.Policy) { p.Owners[0].Nodes = "né" },
		"node n2 has two owners, chemistry and physics":          func(p *pb.Policy) { p.Owners[0].Nodes = "n[1-2]" },
		"the owners have more than 65536 nodes": func(p *pb.Policy) {
			p.Owners[0].Nodes, p.Owners[1].Nodes = "m[1-40000]", "k[1-40000]"
		},
		"the switches a are under each other": func(p *pb.Policy) { p.Switches = append(p.Switches, &pb.Switch{Name: "a", Switches: "a"}) },
		"is under 16 others": func(p *pb.Policy) {
			for _, pair := range []string{"ab", "bc", "cd", "de", "ef", "fg", "gh", "hi", "ij", "jk", "kl", "lm", "mn", "no", "op", "pq"} {
				p.Switches = append(p.Switches, &pb.Switch{Name: pair[:1], Switches: pair[1:]})
			}
			p.Switches = append(p.Switches, &pb.Switch{Name: "q", Switches: "r"}, &pb.Switch{Name: "r", Nodes: "m1"})
		},
	} {
		message := sharesMessage()
		change(message)
		if _, err := Normalize(FromMessage(message)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
