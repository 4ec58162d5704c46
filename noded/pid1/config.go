package pid1

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// Config is init.json: what the supervisor tells process 1.
type Config struct {
	// Batch is the batch script; nil on a node that does not run it.
	Batch *Batch `json:"batch,omitempty"`
	// StepEnv are the variables of this node, NAME=VALUE, that are laid over
	// the environment of every task of a step.
	StepEnv step.Strings `json:"step_env"`
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

// maxConfigBytes bounds init.json: an environment of 1 MiB in base64, twice.
const maxConfigBytes = 8 << 20

// ReadConfig reads init.json.
func ReadConfig(path string) (*Config, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the job's settings: %w", err)
	}
	if info.Size() > maxConfigBytes {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are allowed", path, info.Size(), maxConfigBytes)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the job's settings: %w", err)
	}
	config := new(Config)
	if err := json.Unmarshal(data, config); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if b := config.Batch; b != nil && (len(b.Argv) == 0 || b.Stdout == "") {
		return nil, fmt.Errorf("%s: the batch script lacks its path or its output", path)
	}
	return config, nil
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
