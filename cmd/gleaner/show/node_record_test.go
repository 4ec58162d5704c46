package show

import (
	"bufio"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestNoWayOut: a node says why jobs with a network of their own reach nothing outside, and
// one where they do says nothing.
func TestNoWayOut(t *testing.T) {
	view := NewView(func(string) string { return "" }, clienttest.StubNow)
	record := func(whyNot string) string {
		var text strings.Builder
		out := bufio.NewWriter(&text)
		NodeRecordOf(&pb.Node{Name: "n1", Inventory: &pb.Inventory{NoWayOut: whyNot}}, view, false).Write(out, false)
		out.Flush()
		return text.String()
	}
	if text := record("its firewall drops what it forwards"); !strings.Contains(text, "\n   NoWayOut=its firewall drops what it forwards\n") {
		t.Error(text)
	}
	if text := record(""); strings.Contains(text, "NoWayOut") || strings.Contains(text, "NoGangNetwork") {
		t.Error(text)
	}
	var text strings.Builder
	out := bufio.NewWriter(&text)
	NodeRecordOf(&pb.Node{Name: "n1", Inventory: &pb.Inventory{}, NoGangNetwork: "has a route to 198.18.0.0/16"}, view, false).Write(out, false)
	if out.Flush(); !strings.Contains(text.String(), "\n   NoGangNetwork=has a route to 198.18.0.0/16\n") {
		t.Error(text.String())
	}
}
