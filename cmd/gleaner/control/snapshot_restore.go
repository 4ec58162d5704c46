package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/snapshotfile"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// restoreTime is how long a restore may take.
const restoreTime = 30 * time.Minute

// restoreSnapshot puts the state of a file in the place of the cluster's: looks
// at all of it first, shows what is replaced by what, and asks.
func (c *controlRun) restoreSnapshot(path string) error {
	file, err := openSnapshot(path)
	if err != nil {
		return c.inv.Fail("%w", err)
	}
	defer file.Close()
	found, err := snapshotfile.Read(interruptedReader{c.inv.Context, file}, nil)
	if err != nil {
		if c.inv.Context.Err() != nil {
			return option.Exit(console.Interrupted)
		}
		return c.snapshotUnfit(path, err)
	}
	if c.client, err = client.Connect(c.inv); err != nil {
		return err
	}
	defer c.client.Close()
	if err := c.showReplaced(path, found.Header()); err != nil {
		return err
	}
	if err := c.confirm("Replace the state of the cluster?", false, "replace the state"); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return c.inv.Fail("%w: nothing was changed", err)
	}
	answer, err := c.sendSnapshot(file, found.Bytes())
	if local := (*localError)(nil); errors.As(err, &local) {
		return c.inv.Fail("%s: %w: nothing was changed", path, local.error)
	}
	if err != nil {
		return client.LoadError(c.inv, snapshotError, err)
	}
	return c.printRestored(answer)
}

// showReplaced says what there is now, and what there will be.
func (c *controlRun) showReplaced(path string, header *pb.SnapshotHeader) error {
	now, err := client.AskOne(c.inv.Context, c.client, c.client.Status, &pb.StatusRequest{})
	if err != nil {
		return client.LoadError(c.inv, snapshotError, err)
	}
	config, err := client.AskOne(c.inv.Context, c.client, c.client.ShowConfig, &pb.ShowConfigRequest{})
	if err != nil {
		return client.LoadError(c.inv, snapshotError, err)
	}
	name := config.GetPolicy().GetClusterName()
	out := bufio.NewWriter(c.inv.Stdout)
	fmt.Fprintf(out, "replaced:  cluster %s as of now: jobs waiting %d, running %d; nodes %d\n", format.Printable(name),
		now.GetJobsWaiting(), now.GetJobsRunning()+now.GetJobsEnding(), len(now.GetLeases()))
	fmt.Fprintf(out, "by:        %s\n", c.contents(header))
	fmt.Fprintf(out, "           (%s)\n", format.Printable(path))
	if header.GetClusterName() != name {
		fmt.Fprintf(out, "THE SNAPSHOT IS OF ANOTHER CLUSTER: %s, and this one is %s\n", format.Printable(header.GetClusterName()), format.Printable(name))
	}
	fmt.Fprintln(out, "What was submitted since then is forgotten, and ended where it runs; what ended since then may run again.\nNothing starts until every node has registered, or is declared fenced.")
	return out.Flush()
}

// sendSnapshot streams the file; it is checked again as it goes.
func (c *controlRun) sendSnapshot(file *os.File, size int64) (*pb.RestoreSnapshotResponse, error) {
	ctx, cancel := context.WithTimeout(c.inv.Context, restoreTime)
	defer cancel()
	stream, err := c.client.RestoreSnapshot(ctx)
	if err != nil {
		return nil, err
	}
	shown := c.progress("sent", size)
	defer shown.end()
	sent, refused := int64(0), false
	_, err = snapshotfile.Read(file, func(chunk *pb.SnapshotChunk) error {
		sent += int64(len(chunk.GetData()))
		shown.at(sent)
		err := stream.Send(chunk)
		refused = err != nil
		return err
	})
	if err != nil && !refused {
		return nil, &localError{err}
	}
	return stream.CloseAndRecv() // which says why, if it was refused
}

func (c *controlRun) printRestored(answer *pb.RestoreSnapshotResponse) error {
	if c.inv.Given("quiet") {
		return nil
	}
	out := bufio.NewWriter(c.inv.Stdout)
	fmt.Fprintf(out, "restored: the next job is %s\n", show.Digits(answer.GetNextJobId()))
	if awaited := answer.GetAwaited(); len(awaited) > 0 {
		fmt.Fprintf(out, "nothing starts until these nodes have registered, or are declared fenced: %s\n", format.Printable(spec.FormatHostList(awaited)))
	}
	return out.Flush()
}
