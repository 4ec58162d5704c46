package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// What is read, all of it as the commands print it with --json=v0.0.39:
//
//	shares/MS.json  gshare --all, at a Unix time in milliseconds, again and again
//	jobs.json       gqueue --states=all, when all was over
//	nodes.json      ginfo
//	config          gcontrol show config, as text

type shareRecord struct {
	Account, Parent string
	Type            []string // USER, or nothing for an account
	Shares          uint32
	Usage           float64
}

type deviceList struct {
	Devices []struct{} `json:"devices"`
}

type jobRecord struct {
	Account string `json:"account"`
	Submit  int64  `json:"submit_time"` // Unix seconds, as the others
	Start   int64  `json:"start_time"`
	End     int64  `json:"end_time"`
	Gleaner struct {
		Allocation []deviceList `json:"allocation"` // one of each node
	} `json:"gleaner"`
}

// recorded is the show as a cluster told it.
func recorded(directory string) (*show, error) {
	s := &show{unit: "s", unitMS: 1000, every: 20, source: "on a cluster of real daemons, told by gshare and gqueue"}
	var err error
	if s.halfLifeS, err = readHalfLife(filepath.Join(directory, "config")); err != nil {
		return nil, err
	}
	var nodes struct {
		Nodes []struct{ Gleaner deviceList }
	}
	var jobs struct{ Jobs []jobRecord }
	if err := readJSON(filepath.Join(directory, "nodes.json"), &nodes); err != nil {
		return nil, err
	}
	if err := readJSON(filepath.Join(directory, "jobs.json"), &jobs); err != nil {
		return nil, err
	}
	for _, node := range nodes.Nodes {
		s.gpus += len(node.Gleaner.Devices)
	}
	files, err := filepath.Glob(filepath.Join(directory, "shares", "*.json"))
	if err != nil || len(files) == 0 {
		return nil, cmp.Or(err, fmt.Errorf("%s has no samples of gshare", directory))
	}
	slices.Sort(files) // of equal length
	var firstMS int64
	for i, file := range files {
		atMS, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(file), ".json"), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: its name is no time: %w", file, err)
		}
		if i == 0 {
			firstMS = atMS
		}
		next := sample{atMS: atMS - firstMS}
		if err := s.readShares(file, &next); err != nil {
			return nil, err
		}
		s.count(jobs.Jobs, atMS, &next)
		s.samples = append(s.samples, next)
	}
	for _, job := range jobs.Jobs {
		if l := s.labNamed(job.Account); l >= 0 {
			s.jobs[l]++
		}
	}
	return s, nil
}

// readShares reads the usage of both labs; the first time their shares, too: the
// labs are the accounts below root, those with more shares first.
func (s *show) readShares(file string, to *sample) error {
	var told struct{ Shares []shareRecord }
	if err := readJSON(file, &told); err != nil {
		return err
	}
	labs := slices.DeleteFunc(told.Shares, func(r shareRecord) bool { return len(r.Type) > 0 || r.Parent != "root" })
	slices.SortFunc(labs, func(a, b shareRecord) int {
		return cmp.Or(cmp.Compare(b.Shares, a.Shares), cmp.Compare(a.Account, b.Account))
	})
	if len(labs) != len(s.labs) {
		return fmt.Errorf("%s: %d accounts below root, not %d", file, len(labs), len(s.labs))
	}
	for l, record := range labs {
		s.labs[l] = lab{name: record.Account, shares: record.Shares}
		to.used[l] = record.Usage
	}
	return nil
}

func (s *show) labNamed(account string) int {
	return slices.IndexFunc(s.labs[:], func(l lab) bool { return l.name == account })
}

// count fills in what ran and what waited. The cluster tells whole seconds, cut
// off: on average everything was half a second later.
func (s *show) count(jobs []jobRecord, atMS int64, to *sample) {
	at := float64(atMS)/1000 - 0.5
	for i := range jobs {
		job := &jobs[i]
		l := s.labNamed(job.Account)
		switch {
		case l < 0 || at < float64(job.Submit):
		case job.Start == 0 || at < float64(job.Start):
			to.waiting[l]++
		case at < float64(job.End):
			for _, node := range job.Gleaner.Allocation {
				to.gpus[l] += len(node.Devices)
			}
		}
	}
}

func readJSON(path string, to any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

var halfLifeLine = regexp.MustCompile(`(?m)^PriorityDecayHalfLife *= *(\S+)$`)

func readHalfLife(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	line := halfLifeLine.FindSubmatch(text)
	if line == nil {
		return 0, fmt.Errorf("%s does not say PriorityDecayHalfLife", path)
	}
	seconds, err := spec.ParseTime(string(line[1]))
	return int64(seconds), err
}
