package main

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gleaner-hpc/gleaner/sched/sim"
	"github.com/gleaner-hpc/gleaner/sched/sim/trace"
)

// replayed is what one replay came to.
type replayed struct {
	Trace  string `json:"trace"`
	Policy string `json:"policy"`
	sim.Figures
	Promised int `json:"promised"` // jobs for which a start was planned before they started
	Late     int `json:"late"`     // of those, how many started later than it was planned first
	Differ   int `json:"differ"`   // jobs that start at another time than in pyss; -1 = not known
}

// jobs reads the workload from below a folder.
func (w *workload) jobs(folder string) (jobs []trace.Job, err error) {
	err = unpack(filepath.Join(folder, w.file), func(from io.Reader) (err error) {
		jobs, err = trace.Read(from)
		return err
	})
	return jobs, err
}

// replay replays a workload under a policy.
func (w *workload) replay(jobs []trace.Job, k *known, folder string, progress sim.Progress) (*replayed, error) {
	cluster, err := sim.Pool(w.processors)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(sim.Policies, func(p sim.Policy) bool { return p.Name == k.policy })
	if at < 0 {
		return nil, fmt.Errorf("there is no policy %q", k.policy)
	}
	result, err := sim.Run(jobs, cluster, sim.Policies[at], progress)
	if err != nil {
		return nil, err
	}
	r := &replayed{Trace: w.name, Policy: k.policy, Figures: result.Figures(), Differ: -1}
	for i := range result.Jobs {
		if o := &result.Jobs[i]; o.PromisedS >= 0 {
			r.Promised++
			if o.StartS > o.PromisedS {
				r.Late++
			}
		}
	}
	if k.golden != "" {
		r.Differ, err = differ(result, filepath.Join(folder, k.golden))
	}
	return r, err
}

// differ counts the jobs that start at another time than a file says, or are not in both.
func differ(result *sim.Result, path string) (count int, err error) {
	starts, err := golden(path)
	if err != nil {
		return 0, err
	}
	for i := range result.Jobs {
		o := &result.Jobs[i]
		want, is := starts[o.ID]
		if !is || o.StartS != want && max(o.StartS, 1) != want { // pyss knows no second 0 in some traces
			count++
		}
		delete(starts, o.ID)
	}
	return count + len(starts), nil
}

// golden is the start of each job in pyss.
func golden(path string) (starts map[uint32]int64, err error) {
	var rows [][]string
	err = unpack(path, func(from io.Reader) (err error) {
		rows, err = csv.NewReader(from).ReadAll()
		return err
	})
	if err != nil {
		return nil, err
	}
	starts = map[uint32]int64{}
	for _, row := range rows[1:] {
		id, wrong := strconv.ParseUint(row[0], 10, 32)
		start, alsoWrong := strconv.ParseInt(row[2], 10, 64)
		if err := errors.Join(wrong, alsoWrong); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		starts[uint32(id)] = start
	}
	return starts, nil
}

// unpack reads a file that is packed with gzip.
func unpack(path string, read func(io.Reader) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err == nil {
		err = read(unpacked)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
