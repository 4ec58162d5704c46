package ctld

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestSetLending: the owner's coordinator sets the terms of their nodes, a retry and a dry
// run change nothing, and others see what they may.
func TestSetLending(t *testing.T) {
	c := newOwnedCluster(t, "users", "accounts")
	request := &pb.SetLendingRequest{
		RequestId: uuid.NewString(), Names: "n1", Settings: []string{"hours", "time_zone", "accounts"},
		Lending: &pb.Lending{Hours: "Mon-Fri 18:00-08:00", TimeZone: "Europe/Berlin", Accounts: []string{"chem"}, NoticeMs: 5},
	}
	request.DryRun = true
	dry, err := c.daemon.SetLending(soon(t), request)
	if err != nil || dry.GetNodes()[0].GetLending().GetHours() != "Mon-Fri 18:00-08:00" || c.nodes(c.root)["n1"].GetLending() != nil {
		t.Errorf("a dry run: %v, %v; n1 is %v", dry, err, c.nodes(c.root)["n1"].GetLending())
	}
	request.DryRun = false
	for range 2 {
		answer, err := c.daemon.SetLending(soon(t), request)
		if err != nil || answer.GetNodes()[0].GetLending().GetTimeZone() != "Europe/Berlin" {
			t.Fatalf("%v, %v", answer, err)
		}
		request.Lending.TimeZone = "Asia/Tokyo"
	}
	terms := c.nodes(c.root)["n1"].GetLending()
	if terms.GetBy() != "daemon" || terms.GetOwner() != "chem" || terms.GetNoticeMs() != state.DefaultNoticeMS || terms.GetTimeZone() != "Europe/Berlin" || len(terms.GetAccounts()) != 1 {
		t.Errorf("n1 is lent on the terms %v", terms)
	}
	if seen := c.nodes(c.nobody)["n1"].GetLending(); seen.GetBy() != "" || seen.GetOwner() != "" || seen.GetAccounts() != nil || seen.GetHours() == "" {
		t.Errorf("a stranger sees %v", seen)
	}
	for says, bad := range map[string]*pb.SetLendingRequest{
		"nothing is to be set":          {Names: "n1"},
		"is not known: use a name such": {Names: "n1", Settings: []string{"time_zone"}, Lending: &pb.Lending{TimeZone: "Europe/Atlantis"}},
		`zone "Local" is not known`:     {Names: "n1", Settings: []string{"time_zone"}, Lending: &pb.Lending{TimeZone: "Local"}},
		`zone "../x" is not known`:      {Names: "n1", Settings: []string{"time_zone"}, Lending: &pb.Lending{TimeZone: "../x"}},
		"100%":                          {Names: "n1", Settings: []string{"gpu_percent"}, Lending: &pb.Lending{GpuPercent: 101}},
	} {
		if _, err := c.root.SetLending(soon(t), bad); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %s", bad, err, says)
		}
	}
	if _, err := c.nobody.SetLending(soon(t), &pb.SetLendingRequest{Names: "n1", FromDefault: true}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a stranger sets terms: %v", err)
	}
	if answer, err := c.daemon.SetLending(soon(t), &pb.SetLendingRequest{FromDefault: true}); err != nil || len(answer.GetNodes()) == 0 || c.nodes(c.root)["n1"].GetLending() != nil {
		t.Errorf("the default terms on all nodes: %v, %v", answer, err)
	}
}
