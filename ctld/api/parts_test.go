package api

import (
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// TestPartsOfMessages: a message whose parts would take far more memory than its bytes is
// refused before they are made. All that a request may name is read.
func TestPartsOfMessages(t *testing.T) {
	read := func(data []byte, into proto.Message) error {
		return partsCodec{}.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data[:len(data)/2]), mem.SliceBuffer(data[len(data)/2:])}, into)
	}
	within := func(field protowire.Number, data []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), data)
	}
	empty := strings.Repeat(string(within(1, nil)), maxParts+1)
	packed := make([]byte, 5*maxParts)
	deep := within(1, make([]byte, manyBytes))
	for range 2 * maxDepth {
		deep = within(3, deep)
	}
	for name, bad := range map[string]struct {
		data []byte
		into proto.Message
	}{
		"ids":       {within(1, []byte(empty)), &pb.ListJobsRequest{}},
		"variables": {within(2, []byte(strings.ReplaceAll(empty, "\x0a", "\x62"))), &pb.SubmitRequest{}},
		"levels":    {deep, &descriptorpb.DescriptorProto{}},
		"numbers":   {within(1, within(3, packed)), &pb.ListJobsRequest{}},
	} {
		into := bad.into.ProtoReflect().New().Interface()
		if err := read(bad.data, into); err == nil || proto.Size(into) > 0 {
			t.Errorf("%s: %v, and %d bytes are read", name, err, proto.Size(into))
		}
	}
	most := &pb.CancelRequest{Filter: &pb.JobFilter{}}
	for i := range uint32(spec.MaxJobTargets) {
		most.Filter.Ids = append(most.Filter.Ids, &pb.JobId{Job: 1 + i, ArrayTask: &i})
		most.Tasks = append(most.Tasks, &pb.ArrayTasks{Job: 1 + i, Ranges: []*pb.ArrayRange{{First: 1, Last: 1, Step: 1}}})
	}
	job := goodSpec()
	job.Script = make([]byte, spec.MaxScriptBytes)
	job.Environment, job.Arguments = make([]string, spec.MaxEnvironmentEntries), make([]string, spec.MaxArguments)
	for _, good := range []proto.Message{most, &pb.SubmitRequest{Spec: job}, &pb.SnapshotChunk{What: &pb.SnapshotChunk_Data{Data: make([]byte, 1<<20)}}} {
		data, err := proto.Marshal(good)
		if err != nil {
			t.Fatal(err)
		}
		into := good.ProtoReflect().New().Interface()
		if err := read(data, into); err != nil || !proto.Equal(into, good) {
			t.Errorf("%T: %v", good, err)
		}
	}
}

// TestWordsOfNodes: what a node calls its GPUs and features is read by users' shells.
func TestWordsOfNodes(t *testing.T) {
	for text, good := range map[string]bool{
		"a100": true, "h200_nvl": true, "v1.2-x": true, "": true,
		"`id`": false, "$(id)": false, "a b": false, "a:b": false, "-rf": false, "é": false, "a\nb": false,
	} {
		model := &pb.Inventory{Devices: []*pb.Device{{Id: "GPU-1", Model: text}}}
		if err := checkWords(model); (err == nil) != good {
			t.Errorf("model %q: %v", text, err)
		}
		feature := &pb.Inventory{Features: []string{text}}
		if err := checkWords(feature); (err == nil) != (good && text != "") {
			t.Errorf("feature %q: %v", text, err)
		}
	}
}

// TestVariablesForNodes: each of thousands of nodes may get what says where credentials are, so
// that is short, and nothing else goes there.
func TestVariablesForNodes(t *testing.T) {
	long := strings.Repeat("x", spec.MaxPathBytes)
	if err := checkTendEnvironment([]string{"DOCKER_CONFIG=/home/ada/.docker", "NO_PROXY="}); err != nil {
		t.Error(err)
	}
	for _, bad := range [][]string{{"PATH=/bin"}, {"NO_PROXY=" + long}, {""}, make([]string, 100)} {
		if checkTendEnvironment(bad) == nil {
			t.Errorf("%d variables, %.20q, are sent", len(bad), bad)
		}
	}
}
