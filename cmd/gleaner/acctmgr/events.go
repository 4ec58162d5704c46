package acctmgr

import (
	"fmt"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/account"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// events asks for the events that a request means.
func (c *acctmgrRun) events(request *account.Request, listing *account.Listing) error {
	listing.Now = console.Clock()
	asked, err := request.Events(listing.Now)
	if err != nil {
		return c.refuse(err)
	}
	notice := ""
	restart := func() bool { listing.Events = nil; return true }
	err = client.List(c.inv.Context, c.client, c.client.ListNodeEvents, asked, restart, func(answer *pb.ListNodeEventsResponse) error {
		if answer.GetNotice() != "" {
			notice = answer.GetNotice()
		}
		listing.Events = append(listing.Events, answer.GetEvents()...)
		return nil
	})
	if err != nil {
		return client.LoadError(c.inv, "sacctmgr error", err)
	}
	if notice != "" {
		fmt.Fprintf(c.inv.Stderr, "%s: warning: %s\n", c.inv.Command.Program(), format.Printable(notice))
	}
	return nil
}
