package api

import (
	"errors"
	"io"

	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/passon"
	"github.com/gleaner-hpc/gleaner/proto/tunneldata"
)

// Bounds of a message.
const (
	maxTunnelBytes = 256 << 10
	maxTunnelHead  = 1 << 10 // what it has beside its bytes
)

// carry passes what one end sends on to the other, up to and including its half
// close. The end of a stream is one too. Bytes, such as those of an image, are passed on
// as they came; every other message is read first.
func carry(to, from tunnelStream) error {
	for {
		raw := new(passon.Message)
		err := from.RecvMsg(raw)
		if errors.Is(err, io.EOF) {
			return to.SendMsg(&pb.TunnelMessage{What: &pb.TunnelMessage_HalfClose{HalfClose: true}})
		}
		if err != nil {
			return err
		}
		over := false
		if bytes, is := tunneldata.Of(raw); !is {
			over, err = mayPass(raw)
		} else if bytes > maxTunnelBytes {
			err = tooLarge(bytes)
		}
		if err != nil {
			return err
		}
		if err := to.SendMsg(raw); err != nil || over {
			return err
		}
	}
}

// mayPass refuses a message that may not be passed on, and says whether it is the last.
func mayPass(raw *passon.Message) (last bool, err error) {
	if size := raw.Len(); size > maxTunnelBytes+maxTunnelHead {
		return false, tooLarge(size)
	}
	message := new(pb.TunnelMessage)
	if err := proto.Unmarshal(raw.Bytes(), message); err != nil {
		return false, invalid("a tunnel's message cannot be read: %v", err)
	}
	if message.GetOpen() != nil || message.GetAttach() != nil || message.GetAttached() != nil {
		return false, invalid("a tunnel is opened once")
	}
	return message.GetHalfClose(), nil
}

func tooLarge(bytes int) error {
	return invalid("a tunnel's message of %d bytes: at most %d", bytes, maxTunnelBytes)
}
