package show

import (
	"cmp"

	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// checkpointJSON is how a job is saved.
type checkpointJSON struct {
	Mode         string `json:"mode"`
	Directory    string `json:"directory,omitempty"`
	IntervalS    uint32 `json:"interval_s,omitempty"`
	IntervalAuto bool   `json:"interval_auto,omitempty"`
	Connections  string `json:"connections,omitempty"`
}

// checkpointOf is what was asked for; nil if nothing was.
func checkpointOf(row *JobRow) *checkpointJSON {
	policy := row.job.GetSpec().GetCheckpoint()
	if policy == nil {
		return nil
	}
	return &checkpointJSON{
		Mode: cmp.Or(policy.GetMode(), spec.CheckpointAuto), Directory: checkpointDirectory(row),
		IntervalS: policy.GetIntervalS(), IntervalAuto: policy.GetIntervalAuto(), Connections: policy.GetConnections(),
	}
}

// checkpointDirectory is where a job saves itself. As long as it waits it may
// not have its number yet, and shows the pattern.
func checkpointDirectory(row *JobRow) string {
	job := row.job
	policy := job.GetSpec().GetCheckpoint()
	if row.waiting() && row.tasks() != "" {
		return policy.GetDirectory()
	}
	path, err := spec.CheckpointDirectory(job.GetSpec(), spec.FileNames{
		JobID: job.GetId().GetJob(), ArrayJobID: row.arrayJob(), ArrayTask: row.firstTask(), IsArray: row.tasks() != "",
		JobName: job.GetSpec().GetName(), User: job.GetOwner().GetUser(), Node: job.BatchHost,
	})
	if err != nil {
		return policy.GetDirectory()
	}
	return path
}

// jobCheckpoint adds to a job's record how it is warned before its end, and how
// it is saved.
func jobCheckpoint(r *Record, row *JobRow) {
	var items []string
	if signal := row.job.GetSpec().GetSignal(); signal != "" {
		items = append(items, Item("Signal", signal))
	}
	if asked := checkpointOf(row); asked != nil {
		interval := "N/A"
		switch {
		case asked.IntervalAuto:
			interval = "auto"
		case asked.IntervalS > 0:
			interval = clockText(asked.IntervalS)
		}
		items = append(items, Item("Checkpoint", asked.Mode), Item("CheckpointInterval", interval))
		if asked.Connections != "" {
			items = append(items, Item("CheckpointConnections", asked.Connections))
		}
		if asked.Directory != "" {
			items = append(items, Item("CheckpointDir", asked.Directory))
		}
	}
	if len(items) > 0 {
		r.Line(items...)
	}
}
