package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// checkTerminal fails when text holds what a terminal might obey, or bytes
// that are no text.
func checkTerminal(t *testing.T, what string, text []byte) {
	t.Helper()
	if err := prototest.Plain(string(text)); err != nil {
		t.Fatalf("%s: this reaches the terminal: %v", what, err)
	}
}

// everyColumn is a layout of all the columns that a table has.
func everyColumn[R any](t testing.TB, table *format.Table[R], width string) *format.Layout[R] {
	layout, err := table.ParseLong(strings.Join(table.Names(), width+",") + width)
	if err != nil {
		t.Fatal(err)
	}
	return layout
}

// FuzzJobShown: whatever a controller says of a job, each way to show it ends,
// prints whole lines of plain text, and JSON that is JSON.
func FuzzJobShown(f *testing.F) {
	for _, job := range stubJobs() {
		f.Add(prototest.Marshal(job))
	}
	for _, data := range prototest.Hostile[pb.Job]() {
		f.Add(data)
	}
	columns := everyColumn(f, jobTable, "")
	f.Fuzz(func(t *testing.T, data []byte) {
		job := &pb.Job{}
		if proto.Unmarshal(data, job) != nil || tooManyTasks(job) {
			return
		}
		var out bytes.Buffer
		row := &jobRow{job: job, view: newView(func(string) string { return "" }, stubNow)}
		columns.Fit([]*jobRow{row})
		line := columns.Row(nil, row)
		if bytes.Count(line, []byte("\n")) != 1 {
			t.Errorf("a job on several lines: %q", line)
		}
		checkTerminal(t, "a row", line)
		writer := bufio.NewWriter(&out)
		jobRecordOf(row, true).write(writer, false)
		writer.Flush()
		checkTerminal(t, "a record", out.Bytes())
		for _, shape := range []jsonShape{jsonCurrent, jsonOld} {
			checkJSON(t, shape, shape.job(row))
		}
		watch := &jobWatch{number: job.GetId().GetJob(), live: map[uint32]bool{}}
		if watch.take(job); watch.status < 0 || watch.status > 255 {
			t.Errorf("status %d", watch.status)
		}
	})
}

// tooManyTasks spares the target the time of what is bounded, but large.
func tooManyTasks(job *pb.Job) bool {
	for _, node := range job.GetAllocation() {
		if len(node.GetCpuIds()) > 1000 || len(node.GetDevices()) > 100 {
			return true
		}
	}
	return false
}

func checkJSON(t *testing.T, shape jsonShape, record any) {
	t.Helper()
	var out bytes.Buffer
	stream := newJSONStream(&out, "records", shape)
	for range 2 {
		if err := stream.add(record); err != nil {
			t.Fatalf("JSON: %v", err)
		}
	}
	out.WriteString("]}")
	var read struct{ Records []json.RawMessage }
	plain, err := json.Marshal(record)
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &read)
	}
	if err != nil || len(read.Records) != 2 {
		t.Fatalf("this is no JSON: %v, %q", err, out.Bytes())
	}
	var want, got any
	if json.Unmarshal(plain, &want) != nil || json.Unmarshal(read.Records[0], &got) != nil || !reflect.DeepEqual(want, got) {
		t.Fatalf("%s is printed as %s", plain, read.Records[0])
	}
	checkTerminal(t, "JSON", out.Bytes())
}

// FuzzNodesShown is FuzzJobShown for a list of nodes and one of partitions,
// each entry of which may be missing or name what is not there.
func FuzzNodesShown(f *testing.F) {
	f.Add(prototest.Marshal(&pb.ListNodesResponse{Nodes: stubNodes()}), prototest.Marshal(&pb.ListPartitionsResponse{Partitions: stubPartitions()}))
	partitions := prototest.Hostile[pb.ListPartitionsResponse]()
	for i, nodes := range prototest.Hostile[pb.ListNodesResponse]() {
		f.Add(nodes, partitions[i])
	}
	columns := everyColumn(f, nodeTable, "")
	f.Fuzz(func(t *testing.T, nodesData, partitionsData []byte) {
		nodes, partitions := &pb.ListNodesResponse{}, &pb.ListPartitionsResponse{}
		if proto.Unmarshal(nodesData, nodes) != nil || proto.Unmarshal(partitionsData, partitions) != nil {
			return
		}
		view := newView(func(string) string { return "" }, stubNow)
		var out bytes.Buffer
		writer := bufio.NewWriter(&out)
		for _, single := range []bool{false, true} {
			lines := newGrouping(columns, true, single)
			for _, node := range nodes.Nodes {
				for _, partition := range partitions.Partitions {
					lines.add(partition, node, view)
				}
				lines.add(nil, node, view)
			}
			columns.Fit(lines.rows)
			for _, row := range lines.rows {
				writer.Write(columns.Row(nil, row))
			}
		}
		for _, node := range nodes.Nodes {
			nodeRecordOf(node, view, true).write(writer, true)
			checkJSON(t, jsonCurrent, jsonCurrent.node(node, view))
			checkJSON(t, jsonOld, jsonOld.node(node, view))
		}
		for _, partition := range partitions.Partitions {
			partitionRecordOf(partition, nodes.Nodes, view).write(writer, false)
			checkJSON(t, jsonCurrent, jsonCurrent.partition(partition, nodes.Nodes))
		}
		writer.Flush()
		checkTerminal(t, "nodes", out.Bytes())
	})
}
