package control

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/replay"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/snapshotfile"
)

// replayLimit bounds a replay before a policy is applied.
const replayLimit = 5 * time.Minute

// replayPolicy says what a policy would have done to what ran lately. It is computed
// here and not by a controller, which has a cluster to look after: the controller only
// sends what it remembers.
func (c *controlRun) replayPolicy(policy *pb.Policy, changes []*pb.PolicyChange) error {
	if paths := replay.NotReplayed(changes); len(paths) > 0 {
		if _, err := fmt.Fprintf(c.inv.Stdout, "The replay shows nothing of %s.\n", strings.Join(paths, ", ")); err != nil {
			return err
		}
	}
	if len(replay.NotReplayed(changes)) == len(changes) {
		return nil
	}
	recording, err := c.readRecording()
	if err != nil {
		return err
	}
	recorded, err := replay.FromRecording(recording)
	if err != nil {
		return c.inv.Fail("--replay: %w; without --replay the policy can be applied nevertheless", err)
	}
	shown, ends := console.NewProgress(c.inv), time.Now().Add(replayLimit)
	results, err := replay.Compare(recorded, "this policy", policy, func(name string, ended, of int) error {
		shown.Show("replaying %d of %d runs, %s", ended, of, name)
		if time.Now().After(ends) {
			return fmt.Errorf("it takes more than %s; save a snapshot, and take your time with gleaner simulate --trace SNAPSHOT --policy FILE", replayLimit)
		}
		return c.inv.Context.Err()
	})
	shown.Clear()
	if err != nil {
		return c.inv.Fail("--replay: %w", err)
	}
	out := bufio.NewWriter(c.inv.Stdout)
	replay.PrintReplay(out, recorded, results)
	return out.Flush()
}

// readRecording asks a controller for what it remembers.
func (c *controlRun) readRecording() (*pb.Recording, error) {
	var checker *snapshotfile.Checker
	var recorder *snapshotfile.Recorder
	begin := func() bool {
		checker, recorder = new(snapshotfile.Checker), new(snapshotfile.Recorder)
		return true
	}
	begin()
	err := client.List(c.inv.Context, c.client, c.client.SaveSnapshot, &pb.SaveSnapshotRequest{RecordingOnly: true}, begin, func(chunk *pb.SnapshotChunk) error {
		if err := checker.Take(chunk); err != nil {
			return err
		}
		return recorder.Take(chunk)
	})
	if err == nil {
		err = checker.Finish()
	}
	if errors.Is(err, snapshotfile.ErrDamaged) {
		return nil, c.inv.Fail("what came is not whole: %w: try again", err)
	}
	if err != nil {
		return nil, client.LoadError(c.inv, snapshotError, err)
	}
	return recorder.Recording(), nil
}
