package noded

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// renewEvery is how often it is looked whether the node's certificate is to be
// renewed. A variable for tests.
var renewEvery = 10 * time.Minute

// renewLimit bounds one request for a newer certificate.
const renewLimit = 30 * time.Second

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
	return dial.Renew(dir, time.Now(), 0, func(request []byte) ([]byte, error) {
		conn, err := dial.Dial(a.machine.config.Controllers, dir)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		ctx, cancel := context.WithTimeout(ctx, renewLimit)
		defer cancel()
		answer, err := pb.NewControllerClient(conn).RenewCertificate(ctx, &pb.RenewCertificateRequest{Request: request})
		if err != nil {
			return nil, fmt.Errorf("ask for it: %s", status.Convert(err).Message())
		}
		return answer.GetCertificate(), nil
	})
}
