package api

import (
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// onlyFields is what runFields leaves of a run, made of the decoded run.
func onlyFields(run *pb.PastRun, request *pb.ListRunsRequest) *pb.PastRun {
	kept := proto.CloneOf(run)
	if len(request.Fields) > 0 {
		kept = proto.CloneOf(prototest.Only(run, request.Fields)) // its values are not those of the run
	}
	kept.Steps = nil
	if request.Steps {
		kept.Steps = run.Steps
	}
	return kept
}

// runPaths are all paths of a run that do not lead through a list.
func runPaths(of protoreflect.MessageDescriptor, before string) (paths []string) {
	for i := range of.Fields().Len() {
		field := of.Fields().Get(i)
		path := before + string(field.Name())
		paths = append(paths, path)
		if field.Message() != nil && !field.IsList() && !field.IsMap() {
			paths = append(paths, runPaths(field.Message(), path+".")...)
		}
	}
	return paths
}

// someRun has most fields.
func someRun(random *rand.Rand) *pb.PastRun {
	run := new(pb.PastRun)
	prototest.Fill(run, prototest.Nasty[random.IntN(len(prototest.Nasty))], random.Uint64N(1<<40))
	for _, message := range []protoreflect.Message{run.ProtoReflect(), run.Job.ProtoReflect(), run.Job.Spec.ProtoReflect()} {
		message.Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
			if random.IntN(8) == 0 {
				message.Clear(field)
			}
			return true
		})
	}
	return run
}

// TestRunFieldsAreThoseOfTheRun: the wanted fields of an encoded run are those of the run,
// whatever is wanted of whatever run.
func TestRunFieldsAreThoseOfTheRun(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	all := runPaths(runDescriptor(), "")
	for round := range 300 {
		run := someRun(random)
		encoded, err := proto.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		request := &pb.ListRunsRequest{Steps: round%2 == 0}
		if round > 20 {
			for range 1 + random.IntN(12) {
				request.Fields = append(request.Fields, all[random.IntN(len(all))])
			}
		}
		wanted, err := runFields(request)
		if err != nil {
			t.Fatal(err)
		}
		before := []byte("before")
		kept, err := wanted.appendTo(before, encoded)
		if err != nil {
			t.Fatal(err)
		}
		got := new(pb.PastRun)
		if err := proto.Unmarshal(kept[len(before):], got); err != nil {
			t.Fatalf("%v of a run: %v", request.Fields, err)
		}
		if want := onlyFields(run, request); !proto.Equal(got, want) {
			t.Fatalf("%v of a run, steps %v:\n%v\nwant\n%v", request.Fields, request.Steps, got, want)
		}
	}
}

// TestRunFieldsThatAreNone are refused, with what to do.
func TestRunFieldsThatAreNone(t *testing.T) {
	for _, path := range []string{"", "jobs", "job.", "job.id.job.x", "steps.node", "ran_ms.x", "job.allocation.node"} {
		if _, err := runFields(&pb.ListRunsRequest{Fields: []string{path}}); err == nil || !strings.Contains(err.Error(), "leave it out") {
			t.Errorf("%q: %v", path, err)
		}
	}
	if _, err := runFields(&pb.ListRunsRequest{Fields: make([]string, maxRunFields+1)}); err == nil {
		t.Error("any number of fields is taken")
	}
}

// FuzzRunFields: what is taken of a damaged run can be decoded.
func FuzzRunFields(f *testing.F) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 4 {
		run := someRun(random)
		encoded, err := proto.Marshal(run)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded, "job.id job.spec.name")
		f.Add(encoded[:len(encoded)/2], "")
		encoded[len(encoded)/3] ^= 0x5a
		f.Add(encoded, "")
	}
	for _, wild := range prototest.Hostile[pb.PastRun]() {
		f.Add(wild, "")
		f.Add(wild, "job.spec live")
	}
	f.Fuzz(func(t *testing.T, encoded []byte, paths string) {
		wanted, err := runFields(&pb.ListRunsRequest{Fields: strings.Fields(paths), Steps: true})
		if err != nil {
			return
		}
		kept, err := wanted.appendTo(nil, encoded)
		if err == nil {
			err = proto.Unmarshal(kept, new(pb.PastRun))
			if err != nil {
				t.Fatalf("%q of %x: %x: %v", paths, encoded, kept, err)
			}
		}
	})
}
