package noded

import (
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/dial"
)

// renewEvery is how often it is looked whether the node's certificate is to be
// renewed. A variable for tests.
var renewEvery = 10 * time.Minute

// tendCertificate renews the node's certificate when two thirds of its life are
// over, until ctx ends. It uses a connection that shows the present certificate, and
// the key, which stays here. Open connections continue; new ones show the new
// certificate.
func (a *agent) tendCertificate(ctx context.Context) {
	if a.machine.config.TLSDir == "" {
		return
	}
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		switch renewed, err := a.renewCertificate(ctx); {
		case err != nil && ctx.Err() == nil:
			a.log.Warn("this node's certificate could not be renewed; it is tried again. See that the controller with the authority's key runs, or issue one with gctld cert there", "error", err)
		case renewed:
			a.log.Info("this node's certificate was renewed")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (a *agent) renewCertificate(ctx context.Context) (renewed bool, err error) {
	dir := a.machine.config.TLSDir
	return dial.Renew(dir, time.Now(), 0, dial.AskRenewal(ctx, a.machine.config.Controllers, dir))
}
