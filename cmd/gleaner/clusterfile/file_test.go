package clusterfile

import (
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// The commented file says what each key is when it is left out, except the
// memory of jobs that ask for none. It must be true.
func TestClusterFileShowsTheDefaults(t *testing.T) {
	text, err := os.ReadFile("../../../contrib/cluster.toml")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := Parse([]byte("[[partition]]\nname = \"main\"\ndefault = true\n"))
	if err != nil {
		t.Fatal(err)
	}
	if shown.Partitions[0].DefaultMemoryPerCpuBytes == 0 {
		t.Error("with contrib/cluster.toml a job without --mem takes a node: give it def_mem_per_cpu")
	}
	bare.Partitions[0].DefaultMemoryPerCpuBytes = shown.Partitions[0].DefaultMemoryPerCpuBytes
	if !proto.Equal(shown, bare) {
		t.Errorf("contrib/cluster.toml gives\n%v\nleaving all out gives\n%v", shown, bare)
	}
}

func TestClusterFile(t *testing.T) {
	policy, err := Parse([]byte(`
cluster_name = "lab"
administrators = ["ada"]
min_job_age = "1:00:00"
kill_wait = "0:45"
lease = 10
lease_margin = 4
image_wait = "2:00"
network = "Private"
gang_range = "10.64.0.0/12"
def_mem_per_cpu = "1G"
def_mem_per_gpu = "8G"
max_array_size = 11
max_job_count = 12
max_submit_jobs_per_user = 6
rl_enable = false
rl_bucket_size = 30
rl_refill_rate = 2
rl_refill_period = 3
rl_table_size = 100
rl_log_freq = 60
[[partition]]
name = "gpu"
nodes = "n[1-4]"
default = true
state = "down"
max_time = "1-00:00:00"
default_time = "90"
priority_tier = 0
def_mem_per_cpu = "2G"
def_mem_per_gpu = "16G"
allow_root_jobs = true
lease_action = "fence"
allow_groups = ["physics"]
priority_job_factor = 5
tres_billing_weights = "CPU=1.0,Mem=0.25G,GRES/gpu=2.0"
qos = "gpus"
preempt_mode = "Cancel"
grace_time = "1:00"
allow_accounts = ["lab"]
allow_qos = ["high"]
exclusive = "user"
bf_checkpoint = true
nested_containers = true
network = "private-only"
[[partition]]
name = "table"
tres_billing_weights = {cpu = 1, mem = 0.25, "GRES/gpu:A100" = "4.5"}
[priority]
weight_age = 1000
weight_fair_share = 10000
max_age = "14-0"
decay_half_life = 0
favor_small = true
max_tres = true
usage_reset_period = "Monthly"
[priority.weight_tres]
CPU = 7
"gres/gpu" = 8
[preempt]
type = "preempt/qos"
mode = "SUSPEND,GANG"
exempt_time = 60
guest_exempt_time = "0:05:00"
[[license]]
name = "matlab"
count = 3
[[switch]]
name = "s1"
nodes = "n[1-4]"
[[switch]]
name = "s0"
switches = "s1"
[[owner]]
account = "chem"
nodes = "n[1-2]"
[[borrower]]
account = "bio"
grp_tres = "gres/gpu=4,cpu=32"
[scheduler]
type = "sched/backfill"
bf_max_job_test = 0
bf_job_part_count_reserve = 3
bf_shortest_first = true
replay_age = "14-0"
predict = "Recent-Two"
[accounting]
enforce = ["safe", "qos"]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &pb.Policy{
		ClusterName: "lab", Administrators: []string{"ada"}, MinJobAgeS: 3600, KillWaitS: 45, LeaseS: 10, LeaseMarginS: 4, Network: "private", ImageWaitS: 120, MaxArraySize: 11, MaxJobCount: 12, GangRange: &pb.GangRange{V4: "10.64.0.0/12", V6: "fd6c:9a3e:11f2:7e06::/64"},
		DefaultMemoryPerCpuBytes: 1 << 30, DefaultMemoryPerGpuBytes: 8 << 30,
		MaxSubmitJobsPerUser: 6, RateLimit: &pb.RateLimit{Off: true, BucketSize: 30, RefillRate: 2, RefillPeriodS: 3, TableSize: 100, LogFreqS: 60},
		Partitions: []*pb.Partition{{Name: "gpu", Nodes: "n[1-4]", IsDefault: true, MaxTimeS: 86400, DefaultTimeS: 5400,
			DefaultMemoryPerCpuBytes: 2 << 30, DefaultMemoryPerGpuBytes: 16 << 30, AllowRootJobs: true, LeaseAction: "fence", AllowGroups: []string{"physics"},
			PriorityJobFactor: 5, TresBillingWeights: map[string]float64{"cpu": 1, "mem": 0.25, "gres/gpu": 2}, Qos: "gpus", PreemptMode: "cancel",
			GraceTimeS: 60, AllowAccounts: []string{"lab"}, AllowQos: []string{"high"}, Exclusive: "user", BfCheckpoint: true, NestedContainers: true, Network: "private-only",
		}, {Name: "table", Nodes: "ALL", Up: true, MaxTimeS: spec.Unlimited, PriorityTier: 1, LeaseAction: "run-on", PriorityJobFactor: 1,
			TresBillingWeights: map[string]float64{"cpu": 1, "mem": 256, "gres/gpu:a100": 4.5}}},
		Priority: &pb.PriorityPolicy{WeightAge: 1000, WeightFairShare: 10000, MaxAgeS: 14 * 86400, DecayHalfLifeS: spec.Unlimited,
			FavorSmall: true, MaxTres: true, UsageResetPeriod: "MONTHLY", WeightTres: map[string]uint32{"cpu": 7, "gres/gpu": 8}},
		Preempt:    &pb.PreemptPolicy{Type: "qos", Mode: "suspend", ExemptTimeS: 60, GuestExemptTimeS: 300},
		Scheduler:  &pb.SchedulerPolicy{Type: "backfill", BfJobPartCountReserve: 3, BfMaxJobArrayResv: 20, BfShortestFirst: true, ReplayRuns: 50_000, ReplayAgeS: 14 * 24 * 3600, Predict: "recent-two"},
		Licenses:   []*pb.License{{Name: "matlab", Count: 3}},
		Switches:   []*pb.Switch{{Name: "s1", Nodes: "n[1-4]"}, {Name: "s0", Switches: "s1"}},
		Owners:     []*pb.Owner{{Account: "chem", Nodes: "n[1-2]"}},
		Borrowers:  []*pb.Borrower{{Account: "bio", GrpTres: "gres/gpu=4,cpu=32"}},
		Accounting: &pb.AccountingPolicy{EnforceAssociations: true, EnforceLimits: true, EnforceQos: true, Safe: true},
	}
	if !proto.Equal(policy, want) {
		t.Errorf("got\n%v\nwant\n%v", policy, want)
	}
}

func TestClusterFileRefuses(t *testing.T) {
	partition := "[[partition]]\nname = \"p\"\n"
	for text, want := range map[string]string{
		"":                                                                                 "at least one [[partition]]",
		"klil_wait = 3\n" + partition:                                                      `line 1: there is no key "klil_wait"; did you mean kill_wait?`,
		partition + "max_tme = \"1\"\n":                                                    `line 3: there is no key "partition.max_tme"; did you mean max_time?`,
		partition + "frobnicate = 1\n":                                                     "the keys are name, nodes,",
		"kill_wait = \"30\"\n" + partition:                                                 "kill_wait: \"30\" is no duration",
		"kill_wait = -1\n" + partition:                                                     "out of range",
		"kill_wait = true\n" + partition:                                                   "write a number of seconds",
		"kill_wait = \"1:2:3:4\"\n" + partition:                                            "is no duration",
		partition + "max_time = \"soon\"\n":                                                "max_time: invalid time",
		partition + "max_time = 30\n":                                                      "line 3: partition.max_time: a value of type integer is not allowed here: write a text in quotes, as in \"value\"",
		partition + "default = \"yes\"\n":                                                  "a value of type string is not allowed here: write true or false",
		partition + "allow_groups = \"lab\"\n":                                             "a value of type string is not allowed here: write a list of texts, as in",
		partition + "priority_tier = \"1\"\n":                                              "a value of type string is not allowed here: write a whole number without quotes",
		"partition = 5\n":                                                                  "line 1: partition: a value of type integer is not allowed here: write a table, as in [[partition]]",
		"administrators = [1]\n" + partition:                                               "a value of type integer is not allowed here: write a text in quotes",
		"max_array_size = 99999999999\n" + partition:                                       "99999999999 is out of range: write a whole number",
		"max_submit_jobs_per_user = 0\n" + partition:                                       "max_submit_jobs_per_user = 0 is not sensible: use 1 or more, or leave the key out",
		"rl_refill_rate = 0\n" + partition:                                                 "rl_refill_rate = 0 is not sensible",
		"rl_enabled = true\n" + partition:                                                  "rl_enable",
		"max_job_count = -1\n" + partition:                                                 "out of range",
		strings.Repeat("a.", 50) + "b = 1\n":                                               "a.a.a.\"; the keys are",
		partition + "def_mem_per_cpu = \"x\"\n":                                            "def_mem_per_cpu: invalid size",
		partition + "def_mem_per_gpu = \"x\"\n":                                            "def_mem_per_gpu: invalid size",
		"def_mem_per_gpu = \"-1\"\n" + partition:                                           "def_mem_per_gpu: invalid size",
		partition + "state = \"sideways\"\n":                                               "neither up nor down",
		partition + "lease_action = \"x\"\n":                                               "neither run-on nor fence",
		"network_allow = [\"x\"]\n" + partition:                                            "network_allow: \"x\" is no destination: write an address",
		"network_allow = [\"all\", \"::1\"]\n" + partition:                                 "\"all\" stands alone",
		partition + "network_rate = \"7\"\n":                                               "network_rate: \"7\" is less than 1K",
		"gang_range = \"10.0.0.0/24\"\n" + partition:                                       "gang_range \"10.0.0.0/24\": a range of IPv4 addresses is needed, of 8 to 16 bits and with nothing after them, for example 198.18.0.0/15",
		"gang_range6 = \"198.18.0.0/15\"\n" + partition:                                    "gang_range6 \"198.18.0.0/15\": a range of IPv6 addresses is needed, of at most 64 bits",
		"network = \"x\"\n" + partition:                                                    "network: \"x\" is none of host, private, private-only",
		partition + "network = \"x\"\n":                                                    "network: \"x\" is none of host, private, private-only",
		partition + "nodes = \"n[1-\"\n":                                                   "nodes: ",
		partition + "max_time = \"1\"\ndefault_time = \"2\"\n":                             "longer than max_time",
		partition + partition:                                                              "two partitions are called",
		"[[partition]]\n":                                                                  "it needs a name",
		"cluster_name = \"a":                                                               "line 1: ",
		partition + "default = true\n[[partition]]\nname = \"q\"\ndefault = true\n":        "both are the default",
		partition + "[priority]\nweight_fairshare = 3\n":                                   `line 4: there is no key "priority.weight_fairshare"; did you mean weight_fair_share?`,
		partition + "[priority]\nweight_age = -1\n":                                        "out of range",
		partition + "[priority]\nusage_reset_period = \"FORTNIGHTLY\"\n":                   "priority.usage_reset_period: \"FORTNIGHTLY\" is none of NONE, NOW, DAILY, WEEKLY, MONTHLY, QUARTERLY, YEARLY",
		partition + "[priority]\nmax_age = \"soon\"\n":                                     "priority.max_age: \"soon\" is no duration",
		partition + "[priority]\ndecay_half_life = \"7\"\n":                                "priority.decay_half_life: \"7\" is no duration",
		partition + "[priority.weight_tres]\ngpus = 3\n":                                   "priority.weight_tres: there is no TRES \"gpus\": use cpu, mem,",
		partition + "[priority.weight_tres]\ncpu=1\nCPU = 3\n":                             "cpu has two weights",
		partition + "[preempt]\ntype = \"tier\"\n":                                         "preempt.type: \"tier\" is none of none, partition and qos",
		partition + "[preempt]\nmode = \"kill\"\n":                                         "preempt.mode: \"kill\" is none of off, cancel,",
		partition + "[preempt]\nexempt_time = true\n":                                      "preempt.exempt_time: write a number of seconds",
		partition + "[accounting]\nenforce = [\"limit\"]\n":                                "\"limit\" is none of associations, limits, qos, safe and all; did you mean limits?",
		partition + "[accounting]\nenforce = [\"wckeys\"]\n":                               "leave it out",
		partition + "[[license]]\ncount = 1\n":                                             "[[license]] number 1 of the file needs a name",
		partition + "[[license]]\nname = \"a\"\n":                                          "license \"a\" needs a count",
		partition + "[[license]]\nname=\"a\"\ncount=1\n[[license]]\nname=\"a\"\ncount=2\n": "license \"a\" is there twice",
		partition + "[[switch]]\nnodes = \"n1\"\n":                                         "[[switch]] number 1 of the file needs a name",
		partition + "[[switch]]\nname=\"s\"\nnodes = \"n[1-\"\n":                           "switch \"s\": nodes: ",
		partition + "[[borrower]]\naccount = \"bio\"\n":                                    "borrower \"bio\" needs grp_tres",
		partition + "[[borrower]]\ngrp_tres = \"cpu=1\"\n":                                 "[[borrower]] number 1 of the file needs an account",
		partition + "[[owner]]\nnodes = \"n1\"\n":                                          "[[owner]] number 1 of the file needs an account",
		partition + "[[owner]]\naccount = \"chem\"\n":                                      "owner \"chem\" needs nodes, a host list such as n[1-4]",
		partition + "[[owner]]\naccount = \"chem\"\nnodes = \"n[1-\"\n":                    "owner \"chem\": nodes: ",
		partition + "[[owner]]\naccount = \"chem\"\nnode = \"n1\"\n":                       `line 5: there is no key "owner.node"; did you mean nodes?`,
		partition + "tres_billing_weights = \"CPU\"\n":                                     "tres_billing_weights: invalid weights",
		partition + "tres_billing_weights = \"CPU=-1\"\n":                                  "cpu: \"-1\" is no weight: write a number such as 1.0",
		partition + "tres_billing_weights = \"mem=1X\"\n":                                  "mem: \"1X\" is no weight: write a number such as 0.25G",
		partition + "tres_billing_weights = \"cpu=1,CPU=2\"\n":                             "cpu has two weights",
		partition + "tres_billing_weights = {fpga = 1}\n":                                  "there is no TRES \"fpga\"",
		partition + "tres_billing_weights = 3\n":                                           "or as a table",
		partition + "priority_job_factor = 0\n":                                            "at least 1",
		partition + "exclusive = \"yes\"\n":                                                "exclusive: \"yes\" is neither node nor user",
		partition + "[scheduler]\ntype = \"eager\"\n":                                      "scheduler.type: \"eager\" is none of builtin and backfill",
		partition + "[scheduler]\nbf_window = 3\n":                                         "bf_window",
		partition + "preempt_mode = \"maybe\"\n":                                           "preempt_mode: \"maybe\" is none of",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestClockSeconds(t *testing.T) {
	for text, want := range map[string]uint32{"0:30": 30, "5:00": 300, "1:00:00": 3600, "1-00:00:00": 86400, "90:00": 5400, "7-0": 604800, "1-2": 93600, "1-2:30": 95400} {
		if got, ok := clockSeconds(text); !ok || got != want {
			t.Errorf("%q: %d %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "30", ":", "1:", ":1", "1-", "-1", "1-2:", "-1:00", "1:2:3:4", "99999999999:0", "16777215-00:00:00", "1 :2"} {
		if got, ok := clockSeconds(text); ok {
			t.Errorf("%q: %d, want a refusal", text, got)
		}
	}
}

// FuzzClusterFile: whatever the file says, what is accepted is a policy that
// could be put in force.
func FuzzClusterFile(f *testing.F) {
	text, err := os.ReadFile("../../../contrib/cluster.toml")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{string(text), "[[partition]]\nname=\"p\"\n", "partition = 3", "[partition]\nname='x'", "kill_wait = 1e9\n", "a.b.c = 1",
		"[[partition]]\nname=\"p\"\ntres_billing_weights=\"CPU=1.0,Mem=0.25G\"\nexclusive=\"node\"\n[priority]\nmax_age=\"14-0\"\n[[license]]\nname='x'\ncount=1\n[[switch]]\nname='s'\nnodes='n1'\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		policy, err := Parse([]byte(text))
		if err != nil {
			return
		}
		for _, partition := range policy.Partitions {
			for name, weight := range partition.TresBillingWeights {
				if canonical, err := spec.TRESName(name); err != nil || canonical != name || !(weight >= 0) {
					t.Errorf("accepted a weight of %q: %v", name, weight)
				}
			}
			if partition.Name == "" || partition.MaxTimeS == 0 || partition.DefaultTimeS > partition.MaxTimeS {
				t.Errorf("accepted %v", partition)
			}
			if partition.Nodes != "ALL" {
				if _, err := spec.ParseHostList(partition.Nodes); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// TestLoginsOfMunge: networks are a way in of their own, and what a [[login]] lacks is said.
func TestLoginsOfMunge(t *testing.T) {
	const partition = "[[partition]]\nname = \"main\"\ndefault = true\n"
	policy, err := Parse([]byte(partition + "[[login]]\nhosts = \"login1\"\n[[login]]\nmunge = [\"10.1.0.0/16\", \"10.2.0.1\"]\nmin_uid = 2000\nusers = [\"ann\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := policy.GetLogins()[1]; strings.Join(got.GetMunge(), " ") != "10.1.0.0/16 10.2.0.1" || got.GetHosts() != "" || got.GetMinUid() != 2000 || got.GetUsers()[0] != "ann" {
		t.Errorf("read as %v", got)
	}
	for text, why := range map[string]string{"min_uid = 5": "needs hosts", "munge = \"10.0.0.1\"": "munge", "mung = [\"10.0.0.1\"]": "munge"} {
		if _, err := Parse([]byte(partition + "[[login]]\n" + text + "\n")); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
