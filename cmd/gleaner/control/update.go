package control

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// nodeActions are the values of State=.
var nodeActions = map[string]pb.NodeAction{
	"drain": pb.NodeAction_NODE_ACTION_DRAIN, "drained": pb.NodeAction_NODE_ACTION_DRAIN, "draining": pb.NodeAction_NODE_ACTION_DRAIN,
	"resume": pb.NodeAction_NODE_ACTION_RESUME, "undrain": pb.NodeAction_NODE_ACTION_RESUME, "idle": pb.NodeAction_NODE_ACTION_RESUME,
	"down": pb.NodeAction_NODE_ACTION_DOWN, "fenced": pb.NodeAction_NODE_ACTION_FENCED,
}

// laterUpdates are things that scontrol updates and gcontrol refuses by name.
var laterUpdates = map[string]string{
	"partition": "change cluster.toml and use gcontrol apply -f cluster.toml",
	"step":      "steps cannot be changed", "frontend": "there are no front ends", "suspendexctimes": "nodes are not powered down",
}

// controlUpdate is "update NodeName=n1 State=DRAIN Reason=…", or in words
// "update node n1 state=drain reason=…"; or the same for a job.
func controlUpdate(c *controlRun, words []string) error {
	if len(words) == 0 {
		return c.tooFew("update")
	}
	if namesReservation(words) {
		return c.updateReservation(words)
	}
	settings, err := c.updateSettings(words)
	if err != nil {
		return err
	}
	if namesJobs(settings) {
		return c.updateJobs(settings)
	}
	request, err := c.nodeUpdate(settings)
	if err != nil {
		return err
	}
	if _, err := client.Call(c.inv.Context, c.client, c.client.UpdateNode, request); err != nil {
		return client.LoadError(c.inv, "slurm_update error", err)
	}
	return nil
}

// setting is one Key=value of an update.
type setting struct{ key, value string }

func (c *controlRun) updateSettings(words []string) ([]setting, error) {
	var settings []setting
	for len(words) > 0 {
		key, value, attached := strings.Cut(words[0], "=")
		words = words[1:]
		if !attached && len(settings) == 0 && len(words) > 0 { // "node n1"
			value, words = words[0], words[1:]
			attached = true
		}
		if !attached && (strings.EqualFold(key, "ResetAccrueTime") || strings.EqualFold(key, "Nice")) {
			attached = true // the two that may come without a value
		}
		if !attached {
			return nil, c.aborted("Invalid input: %s", key)
		}
		settings = append(settings, setting{strings.ToLower(key), value})
	}
	return settings, nil
}

// aborted says in Slurm's words that nothing was changed, and why.
func (c *controlRun) aborted(text string, args ...any) error {
	fmt.Fprintf(c.inv.Stderr, "%s\nRequest aborted\n", format.PrintableLines(fmt.Sprintf(text, args...)))
	return option.Exit(1)
}

func (c *controlRun) nodeUpdate(settings []setting) (*pb.UpdateNodeRequest, error) {
	request := &pb.UpdateNodeRequest{RequestId: uuid.NewString()}
	for _, s := range settings {
		switch s.key {
		case "node", "nodename", "nodes":
			if _, err := spec.ParseHostList(s.value); err != nil {
				return nil, c.aborted("Invalid input: %s=%s\n%v", s.key, s.value, err)
			}
			request.Names = s.value
		case "state":
			action, known := nodeActions[strings.ToLower(s.value)]
			if !known {
				fmt.Fprintf(c.inv.Stderr, "Invalid input: %s\nRequest aborted\nValid states are: DRAIN DOWN FENCED RESUME\n", format.Printable(s.value))
				return nil, option.Exit(1)
			}
			request.Action = action
		case "reason":
			request.Reason = strings.Trim(s.value, `"'`)
		case "evacuate":
			switch strings.ToLower(s.value) {
			case "yes":
				request.Evacuate = true
			case "no":
				request.Evacuate = false
			default:
				return nil, c.aborted("Invalid input: evacuate=%s\nuse evacuate=yes: the node's jobs leave it; or no", s.value)
			}
		case "within":
			seconds, err := spec.ParseDuration(s.value)
			if err != nil {
				return nil, c.aborted("Invalid input: within=%s\n%v", s.value, err)
			}
			request.WithinS = seconds
		default:
			if remedy, known := laterUpdates[strings.TrimSuffix(strings.TrimSuffix(s.key, "id"), "name")]; known {
				return nil, &option.LaterError{Name: "update " + s.key, Remedy: remedy}
			}
			return nil, c.aborted("Update of this parameter is not supported: %s=%s", s.key, s.value)
		}
	}
	switch {
	case request.Names == "":
		return nil, c.aborted("No valid entity in update command\nInput line must include \"NodeName\", or \"JobId\" or \"JobName\"")
	case request.Action == pb.NodeAction_NODE_ACTION_UNSPECIFIED:
		return nil, c.aborted("Nothing to change: give State=DRAIN, DOWN, FENCED or RESUME")
	case (request.Evacuate || request.WithinS != 0) && request.Action != pb.NodeAction_NODE_ACTION_DRAIN || request.WithinS != 0 && !request.Evacuate:
		return nil, c.aborted("Only a node that is drained is evacuated: use state=drain evacuate=yes [within=10m]")
	case request.Action != pb.NodeAction_NODE_ACTION_RESUME && request.Reason == "":
		fmt.Fprintln(c.inv.Stderr, "You must specify a reason when DOWNING or DRAINING a node. Request denied.\nAdd Reason=\"...\", which others will see in ginfo -R")
		return nil, option.Exit(1)
	}
	return request, nil
}
