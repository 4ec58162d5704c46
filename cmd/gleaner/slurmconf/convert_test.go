package slurmconf

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clusterfile"
)

// site is a directory of configuration.
var site = map[string]string{
	"slurm.conf": `# A site's slurm.conf
ClusterName=hpc
AuthType=auth/munge
PriorityWeightFairshare=100000 PriorityWeightAge=1000
PriorityFlags=MAX_TRES,ACCRUE_ALWAYS
PriorityWeightTRES=CPU=1000,GRES/gpu=3000
PreemptType=preempt/qos
PreemptMode=REQUEUE,GANG
AccountingStorageEnforce=associations,limits,qos,wckeys
SchedulerParameters=bf_max_job_test=1000,enable_user_top,defer,\
bf_window=2880  # in minutes
Licenses=matlab:10,ansys
PrivateData=jobs,usage
Prolog=/etc/slurm/prolog\#1.sh
MaxArraySize=many
Include inc/nodes.conf
PartitionName=DEFAULT MaxTime=2-00:00:00 State=UP
PartitionName=gpu Nodes=gpus Default=YES DefMemPerCPU=4000 PriorityTier=10 AllowGroups=ALL OverSubscribe=NO
PartitionName=cpu Nodes=c[01-16] MaxTime=UNLIMITED TRESBillingWeights="CPU=1.0,Mem=0.25G" MaxNodes=4
partitionname=old nodes=c[01-02] state=down exclusiveuser=yes DisableRootJobs=NO MaxTime=soon
`,
	"inc/nodes.conf": `NodeName=DEFAULT CPUs=1 RealMemory=1000
NodeName=c[01-16] Feature=intel,avx512 Weight=10
NodeName=g[1-4] Gres=gpu:a100:4 CPUs=2 RealMemory=2000 Feature=nvlink
NodeName=login NodeAddr=10.0.0.9 CPUs=1 RealMemory=500 State=FUTURE
NodeSet=gpus Nodes=g[1-4]
`,
	"gres.conf":     "NodeName=g[1-2] Name=gpu Type=A100 File=/dev/nvidia[0,1-2]\nAutoDetect=nvml\n",
	"topology.conf": "SwitchName=leaf1 Nodes=c[01-16]\nSwitchName=leaf2 Nodes=g[1-4] LinkSpeed=1\nSwitchName=spine Switches=leaf[1-2]\n",
}

func openIn(files map[string]string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		text, there := files[name]
		if !there {
			return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
		}
		return []byte(text), nil
	}
}

func converted(t *testing.T, files map[string]string) *Result {
	t.Helper()
	var lines [3][]Line
	for i, name := range []string{"slurm.conf", "gres.conf", "topology.conf"} {
		var err error
		if lines[i], err = Read(name, openIn(files)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	result, err := Convert(lines[0], lines[1], lines[2])
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestSite(t *testing.T) {
	result := converted(t, site)
	policy, err := clusterfile.Parse([]byte(result.Cluster))
	if err != nil {
		t.Fatalf("%v\n%s", err, result.Cluster)
	}
	for what, is := range map[string]bool{
		"the name":              policy.ClusterName == "hpc",
		"weights":               policy.Priority.WeightFairShare == 100000 && policy.Priority.WeightAge == 1000 && policy.Priority.MaxTres,
		"weights of TRES":       policy.Priority.WeightTres["cpu"] == 1000 && policy.Priority.WeightTres["gres/gpu"] == 3000,
		"preemption":            policy.Preempt.Type == "qos" && policy.Preempt.Mode == "requeue",
		"a continued line":      policy.Scheduler.BfMaxJobTest == 1000 && policy.Scheduler.EnableUserTop,
		"licenses":              len(policy.Licenses) == 2 && policy.Licenses[0].Count == 10 && policy.Licenses[1].Count == 1,
		"enforcement":           policy.Accounting.EnforceLimits && policy.Accounting.EnforceQos,
		"switches":              len(policy.Switches) == 3 && policy.Switches[2].Switches == "leaf[1-2]",
		"partitions":            len(policy.Partitions) == 3,
		"a set of nodes":        policy.Partitions[0].Nodes == "g[1-4]" && policy.Partitions[0].IsDefault,
		"what all have":         policy.Partitions[0].MaxTimeS == 2*24*3600,
		"what one has":          policy.Partitions[0].DefaultMemoryPerCpuBytes == 4000<<20,
		"keys in any case":      !policy.Partitions[2].Up && policy.Partitions[2].Exclusive == "user" && policy.Partitions[2].AllowRootJobs,
		"a value in quotes":     len(policy.Partitions[1].TresBillingWeights) > 0,
		"the default of others": policy.MaxArraySize == 1_000_001, // "many" was left out
	} {
		if !is {
			t.Errorf("%s was not carried over:\n%s", what, result.Cluster)
		}
	}
	checkNodes(t, result)
	checkLeft(t, result)
}

func checkNodes(t *testing.T, result *Result) {
	t.Helper()
	var hosts []string
	for _, node := range result.Nodes {
		hosts = append(hosts, node.Hosts)
	}
	if want := []string{"c[01-16]", "g[1-2]", "g[3-4]", "login"}; !slices.Equal(hosts, want) {
		t.Fatalf("nodes that are alike: %v, want %v", hosts, want)
	}
	if text := result.Nodes[1].Text; strings.Count(text, "[[gpu]]") != 3 || !strings.Contains(text, "path = \"/dev/nvidia2\"") || !strings.Contains(text, "model = \"a100\"") || !strings.Contains(text, "memory = \"2000M\"") {
		t.Errorf("g1 and g2:\n%s", text)
	}
	if text := result.Nodes[2].Text; strings.Contains(text, "[[gpu]]") {
		t.Errorf("the GPUs of g3 and g4 are found by the driver:\n%s", text)
	}
	if text := result.Nodes[3].Text; !strings.Contains(text, "address = \"10.0.0.9\"") {
		t.Errorf("login:\n%s", text)
	}
}

// checkLeft: what is left out is said, with its line.
func checkLeft(t *testing.T, result *Result) {
	t.Helper()
	var lines []string
	for _, left := range result.Left {
		lines = append(lines, fmt.Sprintf("%s: %s: %s", left.Place, left.What, left.Why))
	}
	all := strings.Join(lines, "\n")
	for _, want := range []string{
		"slurm.conf:3: AuthType: needs nothing", "slurm.conf:5: PriorityFlags=ACCRUE_ALWAYS:", "slurm.conf:8: PreemptMode=gang:", "slurm.conf:9: AccountingStorageEnforce=wckeys:",
		"slurm.conf:10: SchedulerParameters: defer:", "slurm.conf:10: SchedulerParameters: bf_window:", "slurm.conf:14: Prolog:", "slurm.conf:15: MaxArraySize=many:",
		"slurm.conf:19: PartitionName=cpu MaxNodes:", "slurm.conf:20: PartitionName=old MaxTime:", "inc/nodes.conf:2: NodeName=c[01-16] Weight:", "inc/nodes.conf:4: NodeName=login State:",
		"topology.conf:2: SwitchName=leaf2 LinkSpeed:",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("not listed: %s\n%s", want, all)
		}
	}
}

// TestBadLines: what no Slurm would read is refused, with its place.
func TestBadLines(t *testing.T) {
	for text, place := range map[string]string{
		"ClusterName":                               "slurm.conf:1:",
		"ClusterName=x\nwhat is this":               "slurm.conf:2:",
		"PartitionName=a Nodes=\"n1":                "slurm.conf:1:",
		"PartitionName=":                            "slurm.conf:1:",
		"PartitionName=a Nodes=n[1-":                "slurm.conf:1:",
		"PartitionName=a Nodes=n1\nPartitionName=a": "slurm.conf:2:",
		"NodeName=n[4-1]":                           "slurm.conf:1:",
		"NodeName=n1 CPUs=many":                     "slurm.conf:1:",
		"\nNodeName=DEFAULT CPUs=x\n\nNodeName=n1":  "slurm.conf:2:",
		"A=1 \\\n B=2 \\\n oops":                    "slurm.conf:1:",
		"A=\x01":                                    "slurm.conf:1:",
		"A=\xff":                                    "slurm.conf:1:",
		"Include slurm.conf":                        "slurm.conf:1:",
		"Include none.conf":                         "slurm.conf:1:",
		"NodeSet=\"\" Nodes=n1":                     "slurm.conf:1:",
		"=x":                                        "slurm.conf:1:",
		"PartitionName=a Nodes=n1 Default = ":       "", // an empty value is one
	} {
		lines, err := Read("slurm.conf", openIn(map[string]string{"slurm.conf": text}))
		if err == nil {
			_, err = Convert(lines, nil, nil)
		}
		if place == "" && err != nil || place != "" && (err == nil || !strings.Contains(err.Error(), place)) {
			t.Errorf("%q: %v, want %q", text, err, place)
		}
	}
	lines, err := Read("gres.conf", openIn(map[string]string{"gres.conf": "AutoDetect=nvml\nName=gpu File=/dev/nvidia[0-"}))
	if err == nil {
		_, err = Convert(nil, lines, nil)
	}
	if err == nil || !strings.Contains(err.Error(), "gres.conf:2:") {
		t.Errorf("gres.conf: %v", err)
	}
}

// FuzzConvert: whatever lies in the files, there is an error, or a policy that can be read.
func FuzzConvert(f *testing.F) {
	f.Add(site["slurm.conf"], site["gres.conf"], site["topology.conf"])
	f.Add("PartitionName=DEFAULT A=b\nPartitionName=\"x y\" Nodes=ALL", "Name=gpu File=/dev/a,b[1-2]", "SwitchName=a Switches=a")
	f.Add("Licenses=a,a,b:x\nPriorityWeightTRES==1,\"=2", "", "")
	f.Cleanup(func(bound int) func() { return func() { maxNamed = bound } }(maxNamed))
	maxNamed = 1 << 13 // lists of names are not what is looked for
	f.Fuzz(func(t *testing.T, conf, gresConf, topology string) {
		files := map[string]string{"slurm.conf": conf, "gres.conf": gresConf, "topology.conf": topology, "inc/nodes.conf": site["inc/nodes.conf"]}
		var lines [3][]Line
		for i, name := range []string{"slurm.conf", "gres.conf", "topology.conf"} {
			var err error
			if lines[i], err = Read(name, openIn(files)); err != nil {
				return
			}
		}
		result, err := Convert(lines[0], lines[1], lines[2])
		if err != nil {
			return
		}
		if _, err := clusterfile.Parse([]byte(result.Cluster)); err != nil {
			t.Errorf("%v\n%s", err, result.Cluster)
		}
		for _, left := range result.Left {
			if left.File == "" || left.Line == 0 || left.Why == "" {
				t.Errorf("left out without a place or a reason: %+v", left)
			}
		}
	})
}
