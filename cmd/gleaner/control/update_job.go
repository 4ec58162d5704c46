package control

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/similar"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// namesJobs reports whether an update is of jobs: it names some by number, at any
// place, or its first word does by name or by user.
func namesJobs(settings []setting) bool {
	switch settings[0].key {
	case "jobname", "name", "userid":
		return true
	}
	return slices.ContainsFunc(settings, setting.isJobID)
}

func (s setting) isJobID() bool { return s.key == "job" || s.key == "jobid" }

// updateJobs is "update JobId=12 TimeLimit=60 …".
func (c *controlRun) updateJobs(settings []setting) error {
	var filter pb.JobFilter
	var ids []string
	change, changes := &pb.JobChange{}, 0
	byNumber := slices.ContainsFunc(settings, setting.isJobID)
	for _, s := range settings {
		switch name := s.key == "jobname" || s.key == "name"; {
		case s.isJobID():
			ids = append(ids, s.value)
			continue
		case s.key == "userid":
			number, err := strconv.ParseUint(s.value, 10, 32)
			if err == nil {
				filter.Uids = append(filter.Uids, uint32(number))
			} else {
				filter.Users = append(filter.Users, s.value)
			}
			continue
		case name && !byNumber && len(filter.Names) == 0:
			filter.Names = append(filter.Names, s.value) // of the jobs to change
			continue
		}
		if err := c.changeJob(change, s); err != nil {
			return err
		}
		changes++
	}
	switch {
	case changes == 0:
		return c.aborted("No changes specified\nAdd what is to be changed, such as TimeLimit=2:00:00")
	case len(ids) == 0 && len(filter.Names) == 0:
		return c.aborted("Nothing is named: give JobId= or JobName=")
	}
	var requests []*pb.UpdateJobsRequest
	add := func(filter *pb.JobFilter, tasks []*pb.ArrayTasks) {
		requests = append(requests, &pb.UpdateJobsRequest{RequestId: uuid.NewString(), Filter: filter, Tasks: tasks, Change: change})
	}
	if err := eachJob(c.inv, ids, add); err != nil {
		return err
	}
	if len(filter.Names) > 0 {
		add(&filter, nil)
	}
	return c.sendUpdates(requests)
}

func (c *controlRun) sendUpdates(requests []*pb.UpdateJobsRequest) error {
	failed := false
	for _, request := range requests {
		answer, err := client.Call(c.inv.Context, c.client, c.client.UpdateJobs, request)
		if err != nil && !c.refusedJob(err, requestName(request.GetFilter(), request.GetTasks())) {
			return client.LoadError(c.inv, "slurm_update error", err)
		}
		failed = failed || err != nil || c.jobErrors(answer.GetResults())
	}
	if failed {
		return option.Exit(1)
	}
	return nil
}

// changeJob reads one Key=value, Key+=value or Key-=value into a change.
func (c *controlRun) changeJob(change *pb.JobChange, s setting) error {
	key, sign := s.key, byte(0)
	if end := strings.TrimRight(key, "+-"); len(key)-len(end) == 1 {
		key, sign = end, key[len(key)-1]
	}
	field, known := jobKeys[key]
	remedy, later := laterJobKeys[key]
	switch {
	case later:
		return &option.LaterError{Name: "update " + s.key, Remedy: remedy}
	case !known:
		meant := ""
		if name := similar.Nearest(key, jobKeyNames()); name != "" {
			meant = "\nDid you mean " + name + "?"
		}
		return c.aborted("Update of this parameter is not supported: %s=%s%s", s.key, s.value, meant)
	case sign != 0 && key != "timelimit":
		return c.aborted("%s can only be set, not added to: %s=%s", key, key, s.value)
	}
	value := s.value
	if len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
		value = value[1 : len(value)-1]
	}
	if sign != 0 {
		value = string(sign) + value
	}
	if err := field(change, value); err != nil {
		return c.aborted("Invalid input: %s=%s\n%v", s.key, s.value, err)
	}
	return nil
}

// jobKeyNames are all keys, in Slurm's spelling where they are shown.
func jobKeyNames() []string {
	return append(slices.Sorted(maps.Keys(jobKeys)), slices.Sorted(maps.Keys(laterJobKeys))...)
}

// changedTime reads a time limit: new, or what is added to it or taken off.
func changedTime(change *pb.JobChange, value string) error {
	sign := int64(0)
	switch {
	case strings.HasPrefix(value, "+"):
		sign, value = 1, value[1:]
	case strings.HasPrefix(value, "-") && value != "-1":
		sign, value = -1, value[1:]
	}
	seconds, err := spec.ParseTime(value)
	if err != nil {
		return err
	}
	if sign == 0 {
		change.TimeLimitS = &seconds
		return nil
	}
	if seconds == spec.Unlimited {
		return errNoAmount
	}
	change.AddTimeS = sign * int64(seconds)
	return nil
}
