package show

import (
	"bufio"
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// FuzzJobShown: whatever a controller says of a job, each way to show it ends,
// prints whole lines of plain text, and JSON that is JSON.
func FuzzJobShown(f *testing.F) {
	for _, job := range clienttest.StubJobs() {
		f.Add(prototest.Marshal(job))
	}
	for _, data := range prototest.Hostile[pb.Job]() {
		f.Add(data)
	}
	columns := everyColumn(f, JobTable, "")
	f.Fuzz(func(t *testing.T, data []byte) {
		job := &pb.Job{}
		if proto.Unmarshal(data, job) != nil || tooManyTasks(job) {
			return
		}
		var out bytes.Buffer
		row := &JobRow{job: job, view: NewView(func(string) string { return "" }, clienttest.StubNow)}
		columns.Fit([]*JobRow{row})
		line := columns.Row(nil, row)
		if bytes.Count(line, []byte("\n")) != 1 {
			t.Errorf("a job on several lines: %q", line)
		}
		clienttest.CheckTerminal(t, "a row", line)
		writer := bufio.NewWriter(&out)
		JobRecordOf(row, true).Write(writer, false)
		writer.Flush()
		clienttest.CheckTerminal(t, "a record", out.Bytes())
		for _, shape := range []JSONShape{JSONCurrent, JSONOld} {
			checkJSON(t, shape, shape.Job(row))
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

// FuzzNodesShown is FuzzJobShown for a list of nodes and one of partitions,
// each entry of which may be missing or name what is not there.
func FuzzNodesShown(f *testing.F) {
	f.Add(prototest.Marshal(&pb.ListNodesResponse{Nodes: clienttest.StubNodes()}), prototest.Marshal(&pb.ListPartitionsResponse{Partitions: clienttest.StubPartitions()}))
	partitions := prototest.Hostile[pb.ListPartitionsResponse]()
	for i, nodes := range prototest.Hostile[pb.ListNodesResponse]() {
		f.Add(nodes, partitions[i])
	}
	columns := everyColumn(f, NodeTable, "")
	f.Fuzz(func(t *testing.T, nodesData, partitionsData []byte) {
		nodes, partitions := &pb.ListNodesResponse{}, &pb.ListPartitionsResponse{}
		if proto.Unmarshal(nodesData, nodes) != nil || proto.Unmarshal(partitionsData, partitions) != nil {
			return
		}
		view := NewView(func(string) string { return "" }, clienttest.StubNow)
		var out bytes.Buffer
		writer := bufio.NewWriter(&out)
		for _, single := range []bool{false, true} {
			lines := NewGrouping(columns, true, single)
			for _, node := range nodes.Nodes {
				for _, partition := range partitions.Partitions {
					lines.Add(partition, node, view)
				}
				lines.Add(nil, node, view)
			}
			columns.Fit(lines.Rows)
			for _, row := range lines.Rows {
				writer.Write(columns.Row(nil, row))
			}
		}
		for _, node := range nodes.Nodes {
			NodeRecordOf(node, view, true).Write(writer, true)
			checkJSON(t, JSONCurrent, JSONCurrent.Node(node, view))
			checkJSON(t, JSONOld, JSONOld.Node(node, view))
		}
		for _, partition := range partitions.Partitions {
			PartitionRecordOf(partition, nodes.Nodes, view).Write(writer, false)
			checkJSON(t, JSONCurrent, JSONCurrent.Partition(partition, nodes.Nodes, view))
		}
		writer.Flush()
		clienttest.CheckTerminal(t, "nodes", out.Bytes())
	})
}

// everyColumn is a layout of all the columns that a table has.
func everyColumn[R any](t testing.TB, table *format.Table[R], width string) *format.Layout[R] {
	layout, err := table.ParseLong(strings.Join(table.Names(), width+",") + width)
	if err != nil {
		t.Fatal(err)
	}
	return layout
}

func checkJSON(t *testing.T, shape JSONShape, record any) {
	t.Helper()
	var out bytes.Buffer
	stream := NewJSONStream(&out, "records", shape)
	for range 2 {
		if err := stream.Add(record); err != nil {
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
	clienttest.CheckTerminal(t, "JSON", out.Bytes())
}
