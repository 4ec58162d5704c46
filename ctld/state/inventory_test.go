package state

import (
	"reflect"
	"slices"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
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

// TestRoutes: the ranges that a node has routes to are kept, at most MaxRoutes of them. What
// is not a range is left out.
func TestRoutes(t *testing.T) {
	texts := []string{"10.0.0.7/8", "x", "10.0.0.0/33", "fd00::/8"}
	for range 2 * spec.MaxRoutes {
		texts = append(texts, "192.0.2.0/24")
	}
	got := routesText(routesOf(texts))
	if len(got) != spec.MaxRoutes-2 || !slices.Equal(got[:3], []string{"10.0.0.0/8", "fd00::/8", "192.0.2.0/24"}) {
		t.Errorf("%d: %v", len(got), got[:3])
	}
}
