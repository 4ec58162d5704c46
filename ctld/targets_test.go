package ctld

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

func heldArray(name string, last uint32) *pb.SubmitRequest {
	return job(func(r *pb.SubmitRequest) {
		r.Spec.Name, r.Spec.Hold = name, true
		r.Spec.Array = &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 0, Last: last, Step: 1}}}
	})
}

func tasksOf(array uint32, text string) []*pb.ArrayTasks {
	parsed, err := spec.ParseArray(text)
	if err != nil {
		panic(err)
	}
	return []*pb.ArrayTasks{{Job: array, Ranges: parsed.GetRanges()}}
}

// TestTargetsMeetAllConditions: ids and tasks name jobs, and further conditions
// narrow that down, for Cancel and for Control.
func TestTargetsMeetAllConditions(t *testing.T) {
	server := startServer(t, configIn(shortDir(t)))
	conn := connectTo(t, server.Addresses()[0], "")
	client := pb.NewControllerClient(conn)
	one, two := submit(t, conn, heldArray("one", 9)), submit(t, conn, heldArray("two", 9))
	left := func() string {
		text := ""
		for _, job := range list(t, conn, &pb.JobFilter{States: []pb.JobState{pb.JobState_JOB_STATE_PENDING}}) {
			text += fmt.Sprintf("%s[%s]%d ", job.GetSpec().GetName(), spec.FormatArray(job.GetWaitingTasks().GetRanges(), 0), min(job.GetPriority(), 1))
		}
		return text
	}
	cancel := func(filter *pb.JobFilter, tasks []*pb.ArrayTasks) int {
		t.Helper()
		answer, err := client.Cancel(soon(t), &pb.CancelRequest{Filter: filter, Tasks: tasks})
		if err != nil {
			t.Fatal(err)
		}
		return len(answer.GetResults())
	}
	if n := cancel(&pb.JobFilter{Names: []string{"two"}}, tasksOf(one, "0-3")); n != 0 || left() != "one[0-9]0 two[0-9]0 " {
		t.Fatalf("tasks of another name: %d answers, left %s", n, left())
	}
	if n := cancel(&pb.JobFilter{Names: []string{"one"}}, tasksOf(one, "0-3")); n != 1 || left() != "one[4-9]0 two[0-9]0 " {
		t.Fatalf("tasks and a name: %d answers, left %s", n, left())
	}
	if n := cancel(&pb.JobFilter{Ids: []*pb.JobId{{Job: two}}, States: []pb.JobState{pb.JobState_JOB_STATE_RUNNING}}, tasksOf(one, "4")); n != 0 {
		t.Fatalf("no job runs: %d answers", n)
	}
	// Without a condition unknown tasks are answered, one by one.
	answer, err := client.Cancel(soon(t), &pb.CancelRequest{Tasks: tasksOf(one, "4,20-21")})
	if err != nil || len(answer.GetResults()) != 3 || answer.GetResults()[2].GetId().GetArrayTask() != 21 || answer.GetResults()[2].GetError() == "" {
		t.Fatalf("unknown tasks: %v, %v", answer, err)
	}
	released, err := client.Control(soon(t), &pb.ControlRequest{
		Verb: pb.ControlVerb_CONTROL_VERB_RELEASE, Filter: &pb.JobFilter{Names: []string{"two"}, Ids: []*pb.JobId{{Job: one}}}, Tasks: tasksOf(two, "8-9"),
	})
	if err != nil || len(released.GetResults()) != 1 || left() != "one[5-9]0 two[0-7]0 two[8-9]1 " {
		t.Fatalf("release: %v, %v, left %s", released, err, left())
	}
	// The same array very often is one target.
	many := &pb.CancelRequest{Filter: &pb.JobFilter{AllStates: true}}
	for range 3 {
		many.Filter.Ids = append(many.Filter.Ids, &pb.JobId{Job: one})
		many.Tasks = append(many.Tasks, tasksOf(two, "0-1")...)
	}
	if answer, err := client.Cancel(soon(t), many); err != nil || len(answer.GetResults()) != 4 || left() != "two[2-7]0 two[8-9]1 " {
		t.Fatalf("repeated: %v, %v, left %s", answer, err, left())
	}
	for name, request := range map[string]*pb.CancelRequest{
		"nothing": {}, "everything": {Filter: &pb.JobFilter{AllStates: true}},
		"task": {Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: one, ArrayTask: proto.Uint32(1<<32 - 1)}}}},
	} {
		if _, err := client.Cancel(soon(t), request); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}
