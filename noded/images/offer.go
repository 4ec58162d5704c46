package images

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/images/direct"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// comeLimit is how long a port stays open for a node that does not come.
const comeLimit = 10 * time.Second

// Offered is how a node can be reached that sends an image.
type Offered struct {
	Ports *direct.Ports // where one may be opened; nil = nowhere
	Sum   []byte        // of the other end's certificate
	Pace  *Pace         // of what is sent
	Log   *slog.Logger
}

// Offer serves an image through a tunnel or, if the other end comes to a port that is
// opened for it, over that connection. The offer is the first message of the tunnel,
// which through reads and writes. serve closes its stream; it may be called for both, and
// the other end uses one of them.
func Offer(ctx context.Context, o Offered, tunnel Tunnel, through io.ReadWriteCloser, serve func(io.ReadWriteCloser) error) error {
	listener, offer := o.open()
	if err := tunnel.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Direct{Direct: offer}}); err != nil {
		if listener != nil {
			listener.Close()
		}
		return err
	}
	if listener == nil {
		return serve(through)
	}
	waiting, stop := context.WithTimeout(ctx, comeLimit)
	defer stop()
	var straight sync.WaitGroup
	var came atomic.Bool
	var served error
	straight.Go(func() {
		conn, err := listener.Accept(waiting)
		if err != nil {
			return
		}
		came.Store(true)
		o.Log.Info("the other node came for the image without a tunnel", "port", offer.Address)
		served = serve(Slowed(ctx, conn, o.Pace))
	})
	// The first byte through the tunnel says that the other end does not come.
	err := serve(&first{ReadWriteCloser: through, heard: stop})
	straight.Wait()
	if came.Load() {
		return served
	}
	return err
}

// open opens a port, if there is one, and answers what is said of it.
func (o *Offered) open() (*direct.Listener, *pb.Direct) {
	if o.Ports == nil || len(o.Sum) != direct.SumBytes {
		return nil, &pb.Direct{}
	}
	key, err := direct.NewKey()
	if err == nil {
		var listener *direct.Listener
		if listener, err = o.Ports.Listen(key, o.Sum); err == nil {
			return listener, &pb.Direct{Address: listener.Address(), Certificate: key.Sum()}
		}
	}
	o.Log.Info("no port can be opened for another node: its image goes through a controller", "error", err)
	return nil, &pb.Direct{}
}

// first tells of the first byte that is read.
type first struct {
	io.ReadWriteCloser
	once  sync.Once
	heard func()
}

func (f *first) Read(into []byte) (int, error) {
	n, err := f.ReadWriteCloser.Read(into)
	if n > 0 {
		f.once.Do(f.heard)
	}
	return n, err
}
