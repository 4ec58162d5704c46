package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// What is asked of the controller, for each way of asking.
func TestControlRequests(t *testing.T) {
	fixTime(t)
	ids := func(numbers ...uint32) (filter *pb.JobFilter) {
		filter = &pb.JobFilter{}
		for _, number := range numbers {
			filter.Ids = append(filter.Ids, &pb.JobId{Job: number})
		}
		return filter
	}
	hold, release, requeue := pb.ControlVerb_CONTROL_VERB_HOLD, pb.ControlVerb_CONTROL_VERB_RELEASE, pb.ControlVerb_CONTROL_VERB_REQUEUE
	for line, want := range map[string][]proto.Message{
		"gcontrol hold 101":          {&pb.ControlRequest{Verb: hold, Filter: ids(101)}},
		"gcontrol HOLD 101,102":      {&pb.ControlRequest{Verb: hold, Filter: ids(101)}, &pb.ControlRequest{Verb: hold, Filter: ids(102)}},
		"gcontrol rel jobname=sweep": {&pb.ControlRequest{Verb: release, Filter: &pb.JobFilter{Names: []string{"sweep"}}}},
		"gcontrol requeue 108_[1-2]": {&pb.ControlRequest{Verb: requeue, Tasks: []*pb.ArrayTasks{{Job: 108, Ranges: []*pb.ArrayRange{{First: 1, Last: 2, Step: 1}}}}}},
		"gcontrol update NodeName=n[1-2] State=DRAIN Reason='no fan'": {&pb.UpdateNodeRequest{Names: "n[1-2]", Action: pb.NodeAction_NODE_ACTION_DRAIN, Reason: "no fan"}},
		"gcontrol update node n1 STATE=Down reason=gone":              {&pb.UpdateNodeRequest{Names: "n1", Action: pb.NodeAction_NODE_ACTION_DOWN, Reason: "gone"}},
		"gcontrol up nodename=n1 state=resume":                        {&pb.UpdateNodeRequest{Names: "n1", Action: pb.NodeAction_NODE_ACTION_RESUME}},
	} {
		stub := stubCluster()
		serveStub(t, stub)
		if _, stderr, status := typed(t, t.Context(), nil, line); status != 0 {
			t.Errorf("%s: status %d, %s", line, status, stderr)
		}
		if len(stub.writes) != len(want) {
			t.Errorf("%s: %d requests, want %d", line, len(stub.writes), len(want))
			continue
		}
		for i := range want {
			if !proto.Equal(stub.writes[i], want[i]) {
				t.Errorf("%s: asked %v, want %v", line, stub.writes[i], want[i])
			}
		}
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestApply(t *testing.T) {
	fixTime(t)
	changes := []*pb.PolicyChange{
		{Path: "kill_wait_s", Before: "30", After: "60"}, {Path: "partitions.gpu.max_time_s", Before: "UNLIMITED", After: "86400"}, {Path: "partitions.old", Before: "n[1-2]"},
	}
	table := "kill_wait_s                30        → 60\npartitions.gpu.max_time_s  UNLIMITED → 86400\npartitions.old             n[1-2]    → -\n"
	path := writeFile(t, "kill_wait = 60\n[[partition]]\nname = \"gpu\"\nmax_time = \"1-0\"\n")
	for _, c := range []struct {
		line    string
		changes []*pb.PolicyChange
		status  int
		out     string
		stderr  string
		dry     []bool // what was asked of the controller
	}{
		{"gcontrol apply --dry-run -f " + path, changes, 0, table, "", []bool{true}},
		{"gcontrol apply --yes -f " + path, changes, 0, table + "in force\n", "", []bool{true, false}},
		{"gcontrol apply -yQ " + path, changes, 0, table, "", []bool{true, false}},
		{"gcontrol apply -f " + path, changes, 1, table, "gcontrol: error: nothing was changed: add --yes to put it in force without being asked\n", []bool{true}},
		{"gcontrol apply -f " + path, nil, 0, "nothing to change: this policy is in force\n", "", []bool{true}},
		{"gcontrol apply", changes, 1, "", "gcontrol: error: no policy given: type gcontrol apply -f cluster.toml\n", nil},
		{"gcontrol apply -f /nonexistent.toml", changes, 1, "", "gcontrol: error: open /nonexistent.toml: no such file or directory\n", nil},
	} {
		stub := &stubController{changes: c.changes}
		serveStub(t, stub)
		out, stderr, status := typed(t, t.Context(), nil, c.line)
		if out != c.out || stderr != c.stderr || status != c.status {
			t.Errorf("%s: status %d\n%s%s", c.line, status, out, stderr)
		}
		if len(stub.writes) != len(c.dry) {
			t.Errorf("%s: asked %d times, want %d", c.line, len(stub.writes), len(c.dry))
			continue
		}
		for i, message := range stub.writes {
			request := message.(*pb.ApplyPolicyRequest)
			if request.DryRun != c.dry[i] || request.Policy.KillWaitS != 60 || request.Policy.Partitions[0].MaxTimeS != 86400 {
				t.Errorf("%s: asked %v", c.line, request)
			}
		}
	}
}

// The commented file says what each key is when it is left out. It must be
// true.
func TestClusterFileShowsTheDefaults(t *testing.T) {
	text, err := os.ReadFile("../../contrib/cluster.toml")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := parseClusterFile(text)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := parseClusterFile([]byte("[[partition]]\nname = \"main\"\ndefault = true\n"))
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(shown, bare) {
		t.Errorf("contrib/cluster.toml gives\n%v\nleaving all out gives\n%v", shown, bare)
	}
}

func TestClusterFile(t *testing.T) {
	policy, err := parseClusterFile([]byte(`
cluster_name = "lab"
administrators = ["ada"]
min_job_age = "1:00:00"
kill_wait = "0:45"
lease = 10
lease_margin = 4
max_array_size = 11
max_job_count = 12
[[partition]]
name = "gpu"
nodes = "n[1-4]"
default = true
state = "down"
max_time = "1-00:00:00"
default_time = "90"
priority_tier = 0
def_mem_per_cpu = "2G"
allow_root_jobs = true
lease_action = "fence"
allow_groups = ["physics"]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &pb.Policy{
		ClusterName: "lab", Administrators: []string{"ada"}, MinJobAgeS: 3600, KillWaitS: 45, LeaseS: 10, LeaseMarginS: 4, MaxArraySize: 11, MaxJobCount: 12,
		Partitions: []*pb.Partition{{Name: "gpu", Nodes: "n[1-4]", IsDefault: true, MaxTimeS: 86400, DefaultTimeS: 5400,
			DefaultMemoryPerCpuBytes: 2 << 30, AllowRootJobs: true, LeaseAction: "fence", AllowGroups: []string{"physics"}}},
	}
	if !proto.Equal(policy, want) {
		t.Errorf("got\n%v\nwant\n%v", policy, want)
	}
}

func TestClusterFileRefuses(t *testing.T) {
	partition := "[[partition]]\nname = \"p\"\n"
	for text, want := range map[string]string{
		"":                                                     "at least one [[partition]]",
		"klil_wait = 3\n" + partition:                          `line 1: there is no key "klil_wait"; did you mean kill_wait?`,
		partition + "max_tme = \"1\"\n":                        `line 3: there is no key "partition.max_tme"; did you mean max_time?`,
		partition + "frobnicate = 1\n":                         "the keys are name, nodes,",
		"kill_wait = \"30\"\n" + partition:                     "kill_wait: \"30\" is no duration",
		"kill_wait = -1\n" + partition:                         "out of range",
		"kill_wait = true\n" + partition:                       "write a number of seconds",
		"kill_wait = \"1:2:3:4\"\n" + partition:                "is no duration",
		partition + "max_time = \"soon\"\n":                    "max_time: invalid time",
		partition + "max_time = 30\n":                          "line 3: partition.max_time: a value of type integer cannot stand here: write a text in quotes, as in \"value\"",
		partition + "default = \"yes\"\n":                      "a value of type string cannot stand here: write true or false",
		partition + "allow_groups = \"lab\"\n":                 "a value of type string cannot stand here: write a list of texts, as in",
		partition + "priority_tier = \"1\"\n":                  "a value of type string cannot stand here: write a whole number without quotes",
		"partition = 5\n":                                      "line 1: partition: a value of type integer cannot stand here: write a table, as in [[partition]]",
		"administrators = [1]\n" + partition:                   "a value of type integer cannot stand here: write a text in quotes",
		"max_array_size = 99999999999\n" + partition:           "99999999999 is out of range: write a whole number",
		"max_job_count = -1\n" + partition:                     "out of range",
		strings.Repeat("a.", 50) + "b = 1\n":                   "a.a.a.\"; the keys are",
		partition + "def_mem_per_cpu = \"x\"\n":                "def_mem_per_cpu: invalid size",
		partition + "state = \"sideways\"\n":                   "neither up nor down",
		partition + "lease_action = \"x\"\n":                   "neither run-on nor fence",
		partition + "nodes = \"n[1-\"\n":                       "nodes: ",
		partition + "max_time = \"1\"\ndefault_time = \"2\"\n": "longer than max_time",
		partition + partition:                                  "two partitions are called",
		"[[partition]]\n":                                      "it needs a name",
		"cluster_name = \"a":                                   "line 1: ",
		partition + "default = true\n[[partition]]\nname = \"q\"\ndefault = true\n": "both are the default",
	} {
		if _, err := parseClusterFile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestClockSeconds(t *testing.T) {
	for text, want := range map[string]uint32{"0:30": 30, "5:00": 300, "1:00:00": 3600, "1-00:00:00": 86400, "90:00": 5400} {
		if got, ok := clockSeconds(text); !ok || got != want {
			t.Errorf("%q: %d %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "30", ":", "1:", ":1", "1-2:3", "1-2", "-1:00", "1:2:3:4", "99999999999:0", "16777215-00:00:00", "1 :2"} {
		if got, ok := clockSeconds(text); ok {
			t.Errorf("%q: %d, want a refusal", text, got)
		}
	}
}

// FuzzClusterFile: whatever the file says, what is accepted is a policy that
// could be put in force.
func FuzzClusterFile(f *testing.F) {
	text, err := os.ReadFile("../../contrib/cluster.toml")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{string(text), "[[partition]]\nname=\"p\"\n", "partition = 3", "[partition]\nname='x'", "kill_wait = 1e9\n", "a.b.c = 1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		policy, err := parseClusterFile([]byte(text))
		if err != nil {
			return
		}
		for _, partition := range policy.Partitions {
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
