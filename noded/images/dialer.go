package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint/store"
	"github.com/gleaner-hpc/gleaner/noded/images/direct"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Dialer opens streams to a node that has an image: straight to that node where both
// ends allow that and it works, and otherwise through the tunnel. Whether it does is
// tried once.
type Dialer struct {
	// Tunnel opens a tunnel, and answers what ends it. The other end is told the sum of
	// the certificate with which this node could come to it; nil = it does not.
	Tunnel func(ctx context.Context, sum []byte) (Tunnel, func(), error)
	// Direct says whether this node may connect to others.
	Direct bool
	Pace   *Pace // of what is sent through the tunnel
	Log    *slog.Logger

	failed atomic.Bool // the way without a tunnel
}

var _ store.Dial = (&Dialer{}).Dial

// Dial implements store.Dial.
func (d *Dialer) Dial(ctx context.Context) (io.ReadWriteCloser, error) {
	if !d.Direct || d.failed.Load() {
		tunnel, end, err := d.Tunnel(ctx, nil)
		if err != nil {
			return nil, err
		}
		return Stream(ctx, tunnel, d.Pace, end), nil
	}
	key, err := direct.NewKey()
	if err != nil {
		return nil, err
	}
	tunnel, end, err := d.Tunnel(ctx, key.Sum())
	if err != nil {
		return nil, err
	}
	offer, err := receiveOffer(tunnel, end)
	if err != nil {
		end()
		return nil, err
	}
	through := Stream(ctx, tunnel, d.Pace, end)
	if offer.GetAddress() == "" {
		d.failed.Store(true)
		return through, nil
	}
	conn, err := direct.Dial(ctx, offer.Address, key, offer.Certificate)
	if err != nil {
		d.failed.Store(true)
		d.Log.Info("the other node offers a port and cannot be reached there: its image comes through a controller", "address", offer.Address, "error", err)
		return through, nil
	}
	d.Log.Info("the image comes straight from the other node", "address", offer.Address)
	go through.Close() // it waits until the other end has heard of it
	return &straight{ReadWriteCloser: conn, dialer: d}, nil
}

// offerPatience is how long the other node may take to open its end of a tunnel, and a
// port.
const offerPatience = 15 * time.Second

// errOffer is returned for a node that does not say whether it offers a port.
var errOffer = errors.New("the node that has the image sends something else before it says whether it can be reached without a tunnel")

func receiveOffer(tunnel Tunnel, end func()) (*pb.Direct, error) {
	late := time.AfterFunc(offerPatience, end)
	defer late.Stop()
	message, err := tunnel.Recv()
	if err != nil {
		return nil, fmt.Errorf("wait for the node that has the image: %w", err)
	}
	offer, is := message.GetWhat().(*pb.TunnelMessage_Direct)
	if !is {
		return nil, errOffer
	}
	return offer.Direct, nil
}

// straight is a stream without a tunnel. After one that broke, the tunnel is taken.
type straight struct {
	io.ReadWriteCloser
	dialer *Dialer
}

func (s *straight) Read(into []byte) (int, error) {
	n, err := s.ReadWriteCloser.Read(into)
	if err != nil {
		s.dialer.failed.Store(true)
	}
	return n, err
}

func (s *straight) Write(data []byte) (int, error) {
	n, err := s.ReadWriteCloser.Write(data)
	if err != nil {
		s.dialer.failed.Store(true)
	}
	return n, err
}
