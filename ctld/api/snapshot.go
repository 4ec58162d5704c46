package api

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/replica"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/snapshotfile"
)

// Bounds of receiving a snapshot.
const (
	pieceLimit = time.Minute // between two messages of a client that restores
	keepFree   = 64 << 20    // bytes that it leaves on the disk
	lookEvery  = 32          // messages between two looks at the disk
)

// SnapshotHeader describes a backup of a state.
func SnapshotHeader(view *state.View, term uint64, peers []string, version string) *pb.SnapshotHeader {
	census, nodes := view.Census(), uint32(0)
	for node := range view.Nodes() {
		if node.Inventory != nil {
			nodes++
		}
	}
	return &pb.SnapshotHeader{
		Format: snapshotfile.Format, ClusterName: view.Policy().ClusterName, TimeMs: view.TimeMS(),
		Index: view.Index(), Term: term, Peers: peers, Level: uint32(view.Level()), Version: version, NextJobId: view.NextJob(),
		JobsWaiting: clampCount(census.Waiting), JobsRunning: clampCount(census.Running + census.Ending),
		JobsFinished: uint32(view.Counts().Finished), Nodes: nodes,
	}
}

// SaveSnapshot streams the whole state as it is now. It holds scripts and
// environments: administrators only.
func (s *Controller) SaveSnapshot(request *pb.SaveSnapshotRequest, stream pb.Controller_SaveSnapshotServer) error {
	from, err := s.mustAdminister(stream.Context())
	if err != nil {
		return err
	}
	if err := s.mustLead(); err != nil {
		return err
	}
	view := s.cluster.View()
	header := SnapshotHeader(view, s.cluster.Term(), s.cluster.Members(), s.options.Version)
	persist := view.Persist
	if request.GetRecordingOnly() {
		persist = nil
	}
	if err := snapshotfile.Send(header, Recording(view), persist, stream.Send); err != nil || request.GetRecordingOnly() {
		return err
	}
	s.log.Info("a snapshot of the state was saved", "by", from.String(), "index", header.GetIndex())
	return nil
}

// RestoreSnapshot replaces the state of the cluster, once all of the new state
// has arrived and was found complete; before that nothing is changed.
func (s *Controller) RestoreSnapshot(stream pb.Controller_RestoreSnapshotServer) error {
	from, err := s.mustAdminister(stream.Context())
	if err != nil {
		return err
	}
	if err := s.mustLead(); err != nil {
		return err
	}
	if !s.restoring.TryLock() {
		return status.Error(codes.Aborted, "another snapshot is being restored: wait until that is done")
	}
	defer s.restoring.Unlock()
	file, err := spool(s.options.SpoolDirectory)
	if err != nil {
		return status.Errorf(codes.ResourceExhausted, "the snapshot cannot be kept while it comes: %v", err)
	}
	defer file.Close()
	header, err := s.receiveSnapshot(stream, file)
	if err != nil {
		return err
	}
	s.log.Warn("the state is being replaced by that of a snapshot: nothing starts until every node in it has registered or is declared off", "by", from.String(), "of", time.UnixMilli(header.GetTimeMs()).UTC(), "index", header.GetIndex())
	view, err := s.cluster.Replace(stream.Context(), file)
	if err != nil {
		s.log.Error("a snapshot could not be restored: the error says what to do, and whether the state is as it was", "error", err)
		return restoreStatus(err)
	}
	awaited := view.Awaited()
	s.log.Warn("the state was replaced; nothing starts until the awaited nodes have registered or are declared fenced", "next_job", view.NextJob(), "awaited", len(awaited))
	return stream.SendAndClose(&pb.RestoreSnapshotResponse{Awaited: awaited, NextJobId: view.NextJob()})
}

// spool is a file without a name: nothing is left of it, however this ends.
func spool(directory string) (*os.File, error) {
	file, err := os.CreateTemp(directory, "restore-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// receiveSnapshot writes the state that a client sends into a file.
func (s *Controller) receiveSnapshot(stream pb.Controller_RestoreSnapshotServer, file *os.File) (*pb.SnapshotHeader, error) {
	type received struct {
		chunk *pb.SnapshotChunk
		err   error
	}
	var checker snapshotfile.Checker
	messages := make(chan received)
	go func() {
		for {
			chunk, err := stream.Recv()
			select {
			case messages <- received{chunk, err}:
				if err != nil {
					return
				}
			case <-stream.Context().Done(): // also when this handler has returned
				return
			}
		}
	}()
	timer := time.NewTimer(pieceLimit)
	defer timer.Stop()
	for count := 0; ; count++ {
		select {
		case next := <-messages:
			if errors.Is(next.err, io.EOF) {
				if err := checker.Finish(); err != nil {
					return nil, invalid("%v: nothing was changed", err)
				}
				return checker.Header(), nil
			}
			if next.err != nil {
				return nil, next.err
			}
			if err := takeChunk(&checker, next.chunk, file, count); err != nil {
				return nil, err
			}
			timer.Reset(pieceLimit)
		case <-timer.C:
			return nil, status.Errorf(codes.DeadlineExceeded, "nothing more of the snapshot came for %v: nothing was changed", pieceLimit)
		case <-s.stop:
			return nil, status.Error(codes.Unavailable, "this controller stops: nothing was changed")
		}
	}
}

func takeChunk(checker *snapshotfile.Checker, chunk *pb.SnapshotChunk, file *os.File, count int) error {
	if err := checker.Take(chunk); err != nil {
		return invalid("%v: nothing was changed", err)
	}
	if count%lookEvery == 0 {
		var disk unix.Statfs_t
		if err := unix.Fstatfs(int(file.Fd()), &disk); err == nil && int64(disk.Bavail)*disk.Bsize < keepFree {
			return status.Errorf(codes.ResourceExhausted, "the leader's disk has less than %d MiB left: free some space there; nothing was changed", keepFree>>20)
		}
	}
	if _, err := file.Write(chunk.GetData()); err != nil {
		return status.Errorf(codes.ResourceExhausted, "the snapshot cannot be kept while it comes: %v: nothing was changed", err)
	}
	return nil
}

// restoreStatus says why a snapshot was not restored.
func restoreStatus(err error) error {
	code, after := codes.Internal, "nothing was changed"
	switch {
	case errors.Is(err, state.ErrCorruptSnapshot):
		code = codes.InvalidArgument
	case errors.Is(err, state.ErrUnknownCommand), errors.Is(err, state.ErrNoNumbers):
		code = codes.FailedPrecondition
	case errors.Is(err, replica.ErrUncertain):
		code, after = codes.Unknown, "it is not known whether the state was replaced: look with gcontrol show config and gqueue, then restore again if it was not"
	case errors.Is(err, replica.ErrNotLeader), errors.Is(err, replica.ErrStopped):
		code = codes.Unavailable
	case errors.Is(err, replica.ErrRestoring):
		code = codes.Aborted
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, replica.ErrFull):
		code = codes.ResourceExhausted
	}
	return status.Error(code, plainly(fmt.Sprintf("%v: %s", err, after)))
}
