package state

import (
	"reflect"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestWhyNot: what a node cannot do, and why, is told as it said it.
func TestWhyNot(t *testing.T) {
	found := &pb.Inventory{
		Trouble: "a", NoNetworkBound: "b", NoPowerBound: "c", NoIoBound: "d", NoWayOut: "e",
	}
	record := inventoryRecord(found)
	told := inventoryMessage(&record)
	for _, field := range []string{"Trouble", "NoNetworkBound", "NoPowerBound", "NoIoBound", "NoWayOut"} {
		want, got := reflect.ValueOf(found).Elem().FieldByName(field).String(), reflect.ValueOf(told).Elem().FieldByName(field).String()
		if got != want || want == "" {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
}
