package jobspec

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// asked is the spec that a command line makes.
func asked(t *testing.T, line ...string) (*pb.JobSpec, error) {
	t.Helper()
	settings, _, err := scriptCommand().Normalise(line)
	if err != nil {
		return nil, err
	}
	values, err := layered(option.Collect(settings))
	if err != nil {
		return nil, err
	}
	return buildSpec(values, "/here")
}

func TestBuildSpec(t *testing.T) {
	clienttest.FixTime(t)
	base := func(change func(*pb.JobSpec)) *pb.JobSpec {
		job := &pb.JobSpec{WorkDirectory: "/here", Requeue: true}
		change(job)
		return job
	}
	for line, want := range map[string]*pb.JobSpec{
		"": base(func(*pb.JobSpec) {}),
		"-J a -A b --comment=c --wckey d -C e&f": base(func(j *pb.JobSpec) {
			j.Name, j.Account, j.Comment, j.Wckey, j.Constraint = "a", "b", "c", "d", "e&f"
		}),
		"-p x,y,": base(func(j *pb.JobSpec) { j.Partitions = []string{"x", "y"} }),
		"-N2":     base(func(j *pb.JobSpec) { j.MinNodes, j.MaxNodes = 2, 2 }),
		"-N2-4 -n8 -c2 --ntasks-per-node=4": base(func(j *pb.JobSpec) {
			j.MinNodes, j.MaxNodes, j.Tasks, j.CpusPerTask, j.TasksPerNode = 2, 4, 8, 2, 4
		}),
		"--mem=300":         base(func(j *pb.JobSpec) { j.MemoryPerNodeBytes = 300 << 20 }),
		"--mem-per-cpu 2G":  base(func(j *pb.JobSpec) { j.MemoryPerCpuBytes = 2 << 30 }),
		"-t 1:30":           base(func(j *pb.JobSpec) { j.TimeLimitS = 120 }),
		"--time=0":          base(func(j *pb.JobSpec) { j.TimeLimitS = spec.Unlimited }),
		"-t UNLIMITED":      base(func(j *pb.JobSpec) { j.TimeLimitS = spec.Unlimited }),
		"-G2":               base(func(j *pb.JobSpec) { j.Gpus = clienttest.GPUs(pb.GpuScope_GPU_SCOPE_JOB, "", 2) }),
		"--gpus=a100:4":     base(func(j *pb.JobSpec) { j.Gpus = clienttest.GPUs(pb.GpuScope_GPU_SCOPE_JOB, "a100", 4) }),
		"--gpus-per-node=2": base(func(j *pb.JobSpec) { j.Gpus = clienttest.GPUs(pb.GpuScope_GPU_SCOPE_NODE, "", 2) }),
		"--gres=gpu:h200:1": base(func(j *pb.JobSpec) { j.Gpus = clienttest.GPUs(pb.GpuScope_GPU_SCOPE_NODE, "h200", 1) }),
		"-o a -e b -i c":    base(func(j *pb.JobSpec) { j.StandardOutput, j.StandardError, j.StandardInput = "a", "b", "c" }),
		"--tmp=1G --stage-in=once:s3://b/k:/shared/k --stage-out=/r:s3://b/%N/": base(func(j *pb.JobSpec) {
			j.TmpPerNodeBytes = 1 << 30
			j.Staging = []*pb.Staging{{Source: "s3://b/k", Target: "/shared/k", Once: true}, {Source: "/r", Target: "s3://b/%N/", Out: true}}
		}),
		"-D sub":             base(func(j *pb.JobSpec) { j.WorkDirectory = "/here/sub" }),
		"-D /x/../y":         base(func(j *pb.JobSpec) { j.WorkDirectory = "/y" }),
		"--open-mode=append": base(func(j *pb.JobSpec) { j.OpenMode = pb.OpenMode_OPEN_MODE_APPEND }),
		"--open-mode=t":      base(func(j *pb.JobSpec) { j.OpenMode = pb.OpenMode_OPEN_MODE_TRUNCATE }),
		"-w n[1-2] -x n3":    base(func(j *pb.JobSpec) { j.NodeList, j.ExcludeNodes = "n[1-2]", "n3" }),
		"-d afterok:1?singleton --kill-on-invalid-dep=yes": base(func(j *pb.JobSpec) {
			j.Dependency, j.KillOnInvalidDependency = "afterok:1?singleton", clienttest.Ptr(true)
		}),
		"-t 2:00:00 --time-min=0:30": base(func(j *pb.JobSpec) { j.TimeLimitS, j.TimeMinS = 7200, 60 }),
		"-b now+1hour --deadline=now+1day": base(func(j *pb.JobSpec) {
			j.BeginMs, j.DeadlineMs = clienttest.StubNow.Add(time.Hour).UnixMilli(), clienttest.StubNow.Add(24*time.Hour).UnixMilli()
		}),
		"--signal=b:sigusr1": base(func(j *pb.JobSpec) { j.Signal = "B:USR1@60" }),
		"--signal 12@300":    base(func(j *pb.JobSpec) { j.Signal = "USR2@300" }),
		"--checkpoint=App --checkpoint-dir=saved/%j": base(func(j *pb.JobSpec) {
			j.Checkpoint = &pb.CheckpointPolicy{Mode: "app", Directory: "saved/%j"}
		}),
		"--checkpoint=none":             base(func(j *pb.JobSpec) { j.Checkpoint = &pb.CheckpointPolicy{Mode: "none"} }),
		"--checkpoint-interval=1:00:00": base(func(j *pb.JobSpec) { j.Checkpoint = &pb.CheckpointPolicy{IntervalS: 3600} }),
		"--checkpoint-interval=auto":    base(func(j *pb.JobSpec) { j.Checkpoint = &pb.CheckpointPolicy{IntervalAuto: true} }),
		"--priority=0":                  base(func(j *pb.JobSpec) { j.Priority = clienttest.Ptr(uint32(0)) }),
		"--exclusive -H":                base(func(j *pb.JobSpec) { j.Exclusive, j.Hold = true, true }),
		"--exclusive=user":              base(func(j *pb.JobSpec) { j.ExclusiveUser = true }),
		"-C [a*2&b*1]":                  base(func(j *pb.JobSpec) { j.Constraint = "[a*2&b*1]" }),
		"-N1k-2k":                       base(func(j *pb.JobSpec) { j.MinNodes, j.MaxNodes = 1024, 2048 }),
		"--mem=0":                       base(func(j *pb.JobSpec) { j.AllMemory = true }),
		"-n4 --gpus-per-task=a100:2": base(func(j *pb.JobSpec) {
			j.Tasks, j.Gpus = 4, clienttest.GPUs(pb.GpuScope_GPU_SCOPE_TASK, "a100", 2)
		}),
		"--ntasks-per-gpu=2 --cpus-per-gpu=3 --mem-per-gpu=4": base(func(j *pb.JobSpec) {
			j.TasksPerGpu, j.CpusPerGpu, j.MemoryPerGpuBytes = 2, 3, 4<<20
		}),
		"--switches=2":                 base(func(j *pb.JobSpec) { j.Switches = 2 }),
		"--switches=1@1:30":            base(func(j *pb.JobSpec) { j.Switches, j.SwitchesWaitS = 1, 120 }),
		"--switches=1 --wait4switch=5": base(func(j *pb.JobSpec) { j.Switches, j.SwitchesWaitS = 1, 300 }),
		"--switches=0@5":               base(func(*pb.JobSpec) {}),
		"--spread-job --use-min-nodes --contiguous": base(func(j *pb.JobSpec) {
			j.SpreadJob, j.UseMinNodes, j.Contiguous = true, true, true
		}),
		"--nice":             base(func(j *pb.JobSpec) { j.Nice = 100 }),
		"--nice=-5":          base(func(j *pb.JobSpec) { j.Nice = -5 }),
		"--no-requeue":       base(func(j *pb.JobSpec) { j.Requeue = false }),
		"--network=private":  base(func(j *pb.JobSpec) { j.Network = pb.Network_NETWORK_PRIVATE }),
		"--export=NONE":      base(func(j *pb.JobSpec) { j.ExportOption = "NONE" }),
		"--wait-all-nodes=0": base(func(*pb.JobSpec) {}),
		"-n1 -n2 -J a -J b":  base(func(j *pb.JobSpec) { j.Tasks, j.Name = 2, "b" }),
		"-a 0-4:2%2": base(func(j *pb.JobSpec) {
			j.Array = &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 0, Last: 4, Step: 2}}, MaxRunning: 2}
		}),
	} {
		got, err := asked(t, strings.Fields(line)...)
		if err != nil {
			t.Errorf("%s: %v", line, err)
		} else if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}

func TestBuildSpecRefuses(t *testing.T) {
	for line, want := range map[string]struct {
		text   string
		status int
	}{
		"-n0":                                    {`Invalid numeric value "0" for --ntasks`, 1},
		"-n x":                                   {`Invalid numeric value "x" for --ntasks`, 1},
		"-c -1":                                  {`Invalid numeric value "-1" for --cpus-per-task`, 1},
		"-N 4-2":                                 {`Invalid node count: "4-2"`, 255},
		"-N 0":                                   {`Invalid node count: "0"`, 255},
		"--mem=x":                                {"Invalid --mem specification", 255},
		"--mem-per-cpu=0":                        {"--mem-per-cpu=0 names no amount", 1},
		"-t 5x":                                  {"Invalid --time specification", 255},
		"-a x":                                   {"Invalid job array specification", 1},
		"--gres=fpga:1":                          {"Invalid generic resource (gres) specification", 1},
		"-G x:y":                                 {"Invalid --gpus specification", 1},
		"--open-mode=x":                          {"Invalid --open-mode specification", 255},
		"--network=x":                            {"Invalid --network specification", 1},
		"--nice=x":                               {`Invalid --nice value "x"`, 1},
		"--nice=2147483647":                      {"Invalid --nice value", 1},
		"--exclusive=mcs":                        {"--exclusive=mcs is not supported", 255},
		"--exclusive=x":                          {"Invalid --exclusive specification", 255},
		"-C ib|":                                 {`Invalid --constraint specification: invalid constraint "ib|": character 4`, 1},
		"--switches=x":                           {`Invalid --switches specification: "x"`, 1},
		"--switches=1@":                          {"Invalid --switches specification: there is no time after the @", 1},
		"--switches=1@x":                         {`Invalid --switches specification: invalid time "x"`, 1},
		"--gpus-per-task=x:y":                    {"Invalid --gpus-per-task specification", 1},
		"--signal=B:":                            {"Invalid --signal specification: invalid signal: it has no name", 255},
		"--signal=USR1@1:00":                     {"Invalid --signal specification", 255},
		"--checkpoint=dmtcp":                     {"--checkpoint=dmtcp is not known: use auto, system, app, none", 1},
		"--checkpoint=":                          {"Invalid --checkpoint specification: it is empty", 1},
		"--checkpoint-dir=":                      {"Invalid --checkpoint-dir specification: it is empty", 1},
		"--checkpoint=system --checkpoint-dir=x": {"--checkpoint-dir is for applications that save themselves", 1},
		"--checkpoint=app --checkpoint-interval=5": {"--checkpoint=app and --checkpoint-interval exclude each other", 1},
		"--checkpoint-interval=often":              {"Invalid --checkpoint-interval specification: invalid time \"often\"", 255},
		"--gpus-per-socket=1":                      {"--gpus-per-socket is not supported", 1},
		"--tres-per-task=cpu:1":                    {"--tres-per-task is not supported", 1},
		"-c2 --cpus-per-gpu=2":                     {"--cpus-per-task and --cpus-per-gpu are mutually exclusive", 1},
		"--mem=1 --mem-per-gpu=1":                  {"--mem and --mem-per-gpu are mutually exclusive", 1},
		"-w n[1":                                   {"Invalid --nodelist specification", 1},
		"--requeue --no-requeue":                   {"--requeue and --no-requeue are mutually exclusive", 1},
		"--mem=1 --mem-per-cpu=1":                  {"--mem and --mem-per-cpu are mutually exclusive", 1},
		"--begin=soon":                             {"Invalid --begin specification: invalid time \"soon\"", 255},
		"--time-min=soon":                          {"Invalid --time-min specification", 255},
		"--deadline=25:00":                         {"Invalid --deadline specification", 255},
		"-d afterok:1,2":                           {"Job dependency problem: \"2\" says no type", 1},
		"-d afterok:1+1":                           {"heterogeneous jobs, whose components", 1},
		"--priority=high":                          {"Invalid --priority specification", 1},
		"--priority=4294967295":                    {"Invalid --priority specification", 1},

		"--kill-on-invalid-dep=perhaps": {"Invalid --kill-on-invalid-dep specification", 255},
		"--export-file=x":               {"--export-file is not supported", 1},
		"--bogus":                       {"unrecognized option '--bogus'", 255},
	} {
		_, err := asked(t, strings.Fields(line)...)
		text, status := option.Report("gsubmit", err)
		if !strings.Contains(text, want.text) || status != want.status {
			t.Errorf("%s: got %q, %d; want %q, %d", line, text, status, want.text, want.status)
		}
	}
}

func TestLayers(t *testing.T) {
	script := option.Values{OptMem: {"1"}, optRequeue: {""}, OptGres: {"gpu:1"}, OptTime: {"1"}, OptJobName: {"s"}}
	environment := option.Values{OptTime: {"2"}, OptJobName: {"e"}}
	line := option.Values{OptMemPerCPU: {"2"}, optNoRequeue: {""}, OptGPUsPerNode: {"2"}, OptJobName: {"l"}}
	got, err := layered(line, environment, script)
	want := option.Values{OptMemPerCPU: {"2"}, optNoRequeue: {""}, OptGPUsPerNode: {"2"}, OptTime: {"2"}, OptJobName: {"l"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}
