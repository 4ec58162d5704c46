package acctmgr

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/account"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
)

// events asks for the events that a request means.
func (c *acctmgrRun) events(request *account.Request, listing *account.Listing) error {
	listing.Now = console.Clock()
	asked, err := request.Events(listing.Now)
	if err != nil {
		return c.refuse(err)
	}
	if listing.Events, err = past.Events(c.inv, c.client, asked); err != nil {
		return client.LoadError(c.inv, "sacctmgr error", err)
	}
	return nil
}
