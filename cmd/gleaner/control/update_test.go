package control

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// TestUpdateJob: what is asked of the controller for each key of scontrol(1)
// that is supported.
func TestUpdateJob(t *testing.T) {
	clienttest.FixTime(t)
	job := &pb.JobFilter{Ids: []*pb.JobId{{Job: 102}}}
	for words, want := range map[string]*pb.JobChange{
		"TimeLimit=2:00:00":           {TimeLimitS: clienttest.Ptr(uint32(7200))},
		"timelimit=UNLIMITED":         {TimeLimitS: clienttest.Ptr(spec.Unlimited)},
		"TimeLimit+=30":               {AddTimeS: 1800},
		"TimeLimit-=1:00:00":          {AddTimeS: -3600},
		"TimeLimit=+30":               {AddTimeS: 1800},
		"Partition=gpu,main":          {Partitions: []string{"gpu", "main"}},
		"QOS=high Account=physics":    {Qos: clienttest.Ptr("high"), Account: clienttest.Ptr("physics")},
		"Account=":                    {Account: clienttest.Ptr("")},
		"Priority=0":                  {Priority: clienttest.Ptr(uint32(0))},
		"Nice":                        {Nice: clienttest.Ptr(int32(100))},
		"Nice=-5":                     {Nice: clienttest.Ptr(int32(-5))},
		"Dependency=afterok:101":      {Dependency: clienttest.Ptr("afterok:101")},
		"Dependency=":                 {Dependency: clienttest.Ptr("")},
		"StartTime=now+1hour":         {BeginMs: clienttest.Ptr(clienttest.StubNow.Add(time.Hour).UnixMilli())},
		"EligibleTime=0":              {BeginMs: clienttest.Ptr(int64(0))},
		"TimeMin=30":                  {TimeMinS: clienttest.Ptr(uint32(1800))},
		"timemin=N/A":                 {TimeMinS: clienttest.Ptr(uint32(0))},
		"Deadline=now+2hours":         {DeadlineMs: clienttest.Ptr(clienttest.StubNow.Add(2 * time.Hour).UnixMilli())},
		"NumNodes=2-4":                {MinNodes: clienttest.Ptr(uint32(2)), MaxNodes: clienttest.Ptr(uint32(4))},
		"ReqNodes=3":                  {MinNodes: clienttest.Ptr(uint32(3)), MaxNodes: clienttest.Ptr(uint32(3))},
		"MinNodes=2":                  {MinNodes: clienttest.Ptr(uint32(2))},
		"NumTasks=8 TasksPerNode=4":   {Tasks: clienttest.Ptr(uint32(8)), TasksPerNode: clienttest.Ptr(uint32(4))},
		"CPUsPerTask=2":               {CpusPerTask: clienttest.Ptr(uint32(2))},
		"MinMemoryNode=2G":            {MemoryPerNodeBytes: clienttest.Ptr(uint64(2 << 30))},
		"MinMemoryCPU=512":            {MemoryPerCpuBytes: clienttest.Ptr(uint64(512 << 20))},
		"Gres=gpu:a100:2":             {Gpus: &pb.GpuRequests{Requests: clienttest.GPUs(pb.GpuScope_GPU_SCOPE_NODE, "a100", 2)}},
		"Gres=":                       {Gpus: &pb.GpuRequests{}},
		"TresPerJob=gres/gpu:4":       {Gpus: &pb.GpuRequests{Requests: clienttest.GPUs(pb.GpuScope_GPU_SCOPE_JOB, "", 4)}},
		"Features='ib&ssd'":           {Constraint: clienttest.Ptr("ib&ssd")},
		"ReqNodeList=n[1-2]":          {NodeList: clienttest.Ptr("n[1-2]")},
		"ExcNodeList=":                {ExcludeNodes: clienttest.Ptr("")},
		"JobName=other Comment='a b'": {Name: clienttest.Ptr("other"), Comment: clienttest.Ptr("a b")},
		"WCKey=x Requeue=0":           {Wckey: clienttest.Ptr("x"), Requeue: clienttest.Ptr(false)},
		"ArrayTaskThrottle=0":         {MaxRunning: clienttest.Ptr(uint32(0))},
		"OverSubscribe=no":            {Exclusive: clienttest.Ptr(true)},
		"Network=private":             {Network: clienttest.Ptr(pb.Network_NETWORK_PRIVATE)},
		"Shared=user":                 {Exclusive: clienttest.Ptr(false), ExclusiveUser: clienttest.Ptr(true)},
		"KillOnInvalidDependent=yes":  {KillOnInvalidDependency: clienttest.Ptr(true)},
		"Licenses=abaqus:2,matlab":    {Licenses: clienttest.Ptr("abaqus:2,matlab")},
		"Licenses=":                   {Licenses: clienttest.Ptr("")},
		"Switches=2@1:00":             {Switches: clienttest.Ptr(uint32(2)), SwitchesWaitS: clienttest.Ptr(uint32(60))},
		"MailType=END,FAIL":           {MailTypes: clienttest.Ptr(uint32(spec.MailEnd | spec.MailFail))},
		"MailType=none MailUser=ada":  {MailTypes: clienttest.Ptr(uint32(0)), MailUser: clienttest.Ptr("ada")},
		"Switches=0":                  {Switches: clienttest.Ptr(uint32(0)), SwitchesWaitS: clienttest.Ptr(uint32(0))},
		"ResetAccrueTime":             {ResetAccrueTime: true},
		"Checkpoint=auto":             {Checkpoint: clienttest.Ptr("auto")},
	} {
		stub := clienttest.StubCluster()
		clienttest.ServeStub(t, stub)
		line := "gcontrol update JobId=102 " + words
		if _, stderr, status := typed(t, t.Context(), nil, line); status != 0 || len(stub.Writes) != 1 {
			t.Errorf("%s: status %d, %d requests, %s", line, status, len(stub.Writes), stderr)
			continue
		}
		if asked := (&pb.UpdateJobsRequest{Filter: job, Change: want}); !proto.Equal(stub.Writes[0], asked) {
			t.Errorf("%s: asked %v, want %v", line, stub.Writes[0], asked)
		}
	}
}

// TestUpdateNamesJobs: several, ranges of tasks, and those of a name.
func TestUpdateNamesJobs(t *testing.T) {
	clienttest.FixTime(t)
	change := &pb.JobChange{Comment: clienttest.Ptr("x")}
	for line, want := range map[string][]*pb.UpdateJobsRequest{
		"update job 102 comment=x": {{Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: 102}}}}},
		"update job=101,108_[2-3] comment=x": {
			{Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: 101}}}},
			{Tasks: []*pb.ArrayTasks{{Job: 108, Ranges: []*pb.ArrayRange{{First: 2, Last: 3, Step: 1}}}}}},
		"update JobName=sweep Comment=x UserID=1001": {{Filter: &pb.JobFilter{Names: []string{"sweep"}, Uids: []uint32{1001}}}},
		"update UserID=ada Name=sweep Comment=x":     {{Filter: &pb.JobFilter{Names: []string{"sweep"}, Users: []string{"ada"}}}},
	} {
		stub := clienttest.StubCluster()
		clienttest.ServeStub(t, stub)
		if _, stderr, status := typed(t, t.Context(), nil, "gcontrol "+line); status != 0 || len(stub.Writes) != len(want) {
			t.Errorf("%s: status %d, %v, %s", line, status, stub.Writes, stderr)
			continue
		}
		for i := range want {
			want[i].Change = change
			if !proto.Equal(stub.Writes[i], want[i]) {
				t.Errorf("%s: asked %v, want %v", line, stub.Writes[i], want[i])
			}
		}
	}
}

// TestUpdateRefused: with what was wrong and what to type instead, and nothing
// asked of the controller.
func TestUpdateRefused(t *testing.T) {
	clienttest.FixTime(t)
	for words, want := range map[string]string{
		"JobId=102":                         "No changes specified",
		"JobId=102 TimeLimit=soon":          "Invalid input: timelimit=soon\ninvalid time",
		"JobId=102 TimeLimit+=UNLIMITED":    "type how much to add",
		"JobId=102 Nice+=5":                 "nice can only be set",
		"JobId=102 Timelimt=5":              "Did you mean timelimit?",
		"JobId=102 Colour=red":              "Update of this parameter is not supported: colour=red",
		"JobId=102 StdOut=/x":               "update stdout is not supported: cancel the job and submit it again",
		"JobId=102 EndTime=now":             "update endtime is not supported: give TimeLimit",
		"JobId=102 Dependency=afterok:1,2":  "Job dependency problem",
		"JobId=102 StartTime=soon":          "invalid time",
		"JobId=102 NumNodes=4-2":            "type a number of nodes",
		"JobId=102 MinMemoryNode=0":         "say how much",
		"JobId=102 Gres=fpga:1":             "Invalid input: gres=fpga:1",
		"JobId=102 OverSubscribe=maybe":     "type yes, no or user",
		"JobId=102 Network=none":            "type host or private",
		"JobId=102 Partition=,":             "name at least one",
		"JobId=102 ReqNodeList=n[1":         "Invalid input: reqnodelist",
		"JobId=x Comment=y":                 "Invalid job id: x",
		"UserID=ada Comment=y":              "give JobId= or JobName=",
		"JobId=102 Priority=top":            "type a whole number",
		"JobId=102 ArrayTaskThrottle=-1":    "type a whole number, at least 0",
		"JobId=102 KillOnInvalidDependent=": "type yes or no",
	} {
		stub := clienttest.StubCluster()
		clienttest.ServeStub(t, stub)
		_, stderr, status := typed(t, t.Context(), nil, "gcontrol update "+words)
		if status != 1 || !strings.Contains(stderr, want) || len(stub.Writes) > 0 {
			t.Errorf("%s: status %d, %q, want %q; asked %v", words, status, stderr, want, stub.Writes)
		}
	}
	clienttest.ServeStub(t, clienttest.StubCluster())
	_, stderr, status := typed(t, t.Context(), nil, "gcontrol update JobId=101,99,102 Partition=gpu")
	if want := "Job is no longer pending execution (Partition can be changed only of jobs that wait) for job 101\nInvalid job id specified for job 99\n"; status != 1 || stderr != want {
		t.Errorf("status %d, %q", status, stderr)
	}
}

func TestHoldAndRequeueVerbs(t *testing.T) {
	clienttest.FixTime(t)
	filter := &pb.JobFilter{Ids: []*pb.JobId{{Job: 101}}}
	for line, want := range map[string]*pb.ControlRequest{
		"uhold 101":              {Verb: pb.ControlVerb_CONTROL_VERB_HOLD_AS_USER},
		"requ 101":               {Verb: pb.ControlVerb_CONTROL_VERB_REQUEUE},
		"requeue Incomplete 101": {Verb: pb.ControlVerb_CONTROL_VERB_REQUEUE, Incomplete: true},
		"requeuehold 101":        {Verb: pb.ControlVerb_CONTROL_VERB_REQUEUE_HOLD},
		"requeuehold incomplete State=SpecialExit 101": {Verb: pb.ControlVerb_CONTROL_VERB_REQUEUE_SPECIAL_EXIT, Incomplete: true},
	} {
		stub := clienttest.StubCluster()
		clienttest.ServeStub(t, stub)
		want.Filter = filter
		if _, stderr, status := typed(t, t.Context(), nil, "gcontrol "+line); status != 0 || len(stub.Writes) != 1 || !proto.Equal(stub.Writes[0], want) {
			t.Errorf("%s: status %d, asked %v, %s", line, status, stub.Writes, stderr)
		}
	}
}
