package show

import (
	"testing"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestSlurmKeys: each record has all that Slurm's has, of the same types.
func TestSlurmKeys(t *testing.T) {
	view := NewView(func(string) string { return "" }, clienttest.StubNow)
	s := JSONCurrent
	jobs := func() (records []any) {
		all := clienttest.StubJobs()
		all[0].Spec.MailTypes = 3
		for _, job := range all {
			if err := JobRows(job, nil, view, func(row *JobRow) error { records = append(records, s.Job(row)); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		return records
	}
	nodes, partitions := clienttest.StubNodes(), clienttest.StubPartitions()
	var nodeRecords, partitionRecords, lines []any
	for _, node := range nodes {
		nodeRecords = append(nodeRecords, s.Node(node, view))
	}
	for _, p := range partitions {
		partitionRecords = append(partitionRecords, s.Partition(p, nodes, view))
		lines = append(lines, LineRecordOf(s, &NodeRow{Partition: p, view: view}, nodes), LineRecordOf(s, &NodeRow{Partition: p, Nodes: nodes, view: view}, nodes))
	}
	reservation := &pb.Reservation{Name: "r", Flags: []pb.ReservationFlag{pb.ReservationFlag_RESERVATION_FLAG_MAINT}}
	for file, records := range map[string][]any{
		"job": jobs(), "node": nodeRecords, "partition": partitionRecords, "sinfo": lines, "reservation": {s.Reservation(reservation)},
	} {
		t.Run(file, func(t *testing.T) { clienttest.Keys(t, "testdata/"+file+".keys", records...) })
	}
}
