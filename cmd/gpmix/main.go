//go:build pmix

// Command gpmix serves PMIx to the tasks of one step on one node, by the library OpenPMIx.
// Process 1 of the job starts it in the job's container, as the job's user, and it ends
// when its standard input does. What they say to each other is in proto/step/pmix.go.
//
// What tasks put is exchanged at fences of all tasks of the step. A fence of some tasks is
// served where all of them are of one node. What a program asks for beyond (to start
// tasks, to join other steps, to publish names) the library refuses.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

func main() {
	served.to = json.NewEncoder(os.Stdout)
	if err := serve(os.Stdin); err != nil {
		served.tell(&step.PMIxSaid{Failed: err.Error()})
		os.Exit(1)
	}
}

// serve lasts until process 1 closes its end.
func serve(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), step.MaxPMIxLine)
	if !lines.Scan() {
		return lines.Err()
	}
	served.job = &step.PMIxJob{}
	if err := json.Unmarshal(lines.Bytes(), served.job); err != nil {
		return fmt.Errorf("read the step: %w", err)
	}
	if err := served.job.Check(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gpmix-")
	if err != nil {
		return fmt.Errorf("make a directory for the library: %w", err)
	}
	defer os.RemoveAll(dir)
	environment, err := begin(served.job, dir)
	if err != nil {
		return err
	}
	defer end()
	served.tell(&step.PMIxSaid{Environment: environment})
	for lines.Scan() {
		var fenced step.PMIxFenced
		if err := json.Unmarshal(lines.Bytes(), &fenced); err != nil {
			return fmt.Errorf("read a fence: %w", err)
		}
		served.fenced(fenced.Data)
	}
	return lines.Err()
}
