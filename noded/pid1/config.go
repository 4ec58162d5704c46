package pid1

import (
	"encoding/json"
	"errors"
	"os"

	"github.com/gleaner-hpc/gleaner/proto/step"
	"github.com/gleaner-hpc/gleaner/proto/step/grant"
)

// Config is what the supervisor tells process 1 to do.
type Config struct {
	// Batch is the batch script; nil on a node that does not run it.
	Batch *Batch `json:"batch,omitempty"`
	// StepEnv are the variables of this node, NAME=VALUE, that replace those in
	// the environment of every task of a step.
	StepEnv step.Strings `json:"step_env"`
	// Job is what its steps share, where Batch is set.
	Job grant.Job `json:"job"`
	// StepPort is the first of so many ports of this node that are the job's alone; 0 =
	// it has none.
	StepPort  int `json:"step_port"`
	StepPorts int `json:"step_ports"`
	// StepAddress is where it listens for steps that other nodes start here, in the network
	// that the job has between its nodes; "" = their connections come through the supervisor.
	StepAddress string `json:"step_address,omitempty"`
}

// Batch says how to start the batch script.
type Batch struct {
	Argv  step.Strings `json:"argv"` // the first is the path of the script
	Env   step.Strings `json:"env"`
	Cwd   step.Bytes   `json:"cwd"`
	Umask uint32       `json:"umask"`
	// Paths as process 1 sees them. The files exist; outputs are opened to
	// append, because both may be the same file.
	Stdin  string `json:"stdin"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"` // "" = the same as Stdout
	// Wait: do not start before StartBatch arrives on step.sock.
	Wait bool `json:"wait"`
}

// Start is start.json.
type Start struct {
	StartMS int64 `json:"start_ms"` // Unix milliseconds
}

// Exit is exit.json: how the batch script ended.
type Exit struct {
	Code    int    `json:"code"`   // 0 when a signal ended it
	Signal  int    `json:"signal"` // 0 when it exited
	StartMS int64  `json:"start_ms"`
	EndMS   int64  `json:"end_ms"`
	Detail  string `json:"detail,omitempty"` // why it could not be started
}

// writeFile replaces a file of the shared directory in one step, so that the
// supervisor sees all of it or nothing. The job may have put anything there:
// a pipe that nobody reads must not be opened.
func writeFile(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	draft := path + ".new"
	if err := os.Remove(draft); err != nil && !os.IsNotExist(err) {
		return err
	}
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(draft, path)
}
