package state

import (
	"fmt"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	words "github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file converts, both ways, what a request says about its end and its
// saves.

// Checkpoint is how a job is saved, and how often without a request. The zero
// value is the default: auto, and only on request.
type Checkpoint struct {
	Mode         string `cbor:"1,keyasint,omitempty"` // see spec.CheckpointAuto; "" = that
	IntervalS    uint32 `cbor:"2,keyasint,omitempty"`
	IntervalAuto bool   `cbor:"3,keyasint,omitempty"`
	Directory    string `cbor:"4,keyasint,omitempty"` // a pattern; "" = .gleaner/JOB
	Connections  string `cbor:"5,keyasint,omitempty"` // see spec.ConnectionsRefuse; "" = that
}

func (s *Spec) checkpointFromMessage(asked *pb.JobSpec) error {
	if asked.GetSignal() != "" {
		signal, err := words.ParseEndSignal(asked.GetSignal())
		if err != nil {
			return fmt.Errorf("--signal: %w", err)
		}
		s.Signal = signal.String()
	}
	policy := asked.GetCheckpoint()
	if err := words.CheckCheckpoint(policy); err != nil {
		return err
	}
	s.Checkpoint = Checkpoint{
		Mode: policy.GetMode(), IntervalS: policy.GetIntervalS(), IntervalAuto: policy.GetIntervalAuto(), Directory: policy.GetDirectory(), Connections: policy.GetConnections(),
	}
	if s.Checkpoint.Connections == words.ConnectionsRefuse {
		s.Checkpoint.Connections = ""
	}
	if s.Checkpoint.Mode == words.CheckpointAuto {
		s.Checkpoint.Mode = ""
	}
	return nil
}

// checkpointMode is a mode as it is stored.
func checkpointMode(asked string) (string, error) {
	if err := words.CheckCheckpoint(&pb.CheckpointPolicy{Mode: asked}); err != nil {
		return "", err
	}
	if asked == words.CheckpointAuto {
		return "", nil
	}
	return asked, nil
}

// checkCheckpoint refuses a request of which parts exclude each other.
func (s *Spec) checkCheckpoint() error {
	var message pb.JobSpec
	s.checkpointMessage(&message)
	return words.CheckCheckpoint(message.GetCheckpoint())
}

func (s *Spec) checkpointMessage(message *pb.JobSpec) {
	message.Signal = s.Signal
	if c := s.Checkpoint; c != (Checkpoint{}) {
		message.Checkpoint = &pb.CheckpointPolicy{Mode: c.Mode, IntervalS: c.IntervalS, IntervalAuto: c.IntervalAuto, Directory: c.Directory, Connections: c.Connections}
	}
}
