package account

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// allTime is the word of show event that drops the usual bound of time.
const allTime = "all_time"

// Events is what to ask the controllers for, at a time: without Start those since the
// midnight before the last one, and if states are named those that last (sacctmgr(1),
// "SPECIFICATIONS FOR EVENTS").
func (r *Request) Events(now time.Time) (*pb.ListNodeEventsRequest, error) {
	asked := &pb.ListNodeEventsRequest{Nodes: strings.Join(r.names(keyNodes), ",")}
	since, until := r.names(keyStart), r.names(keyEnd)
	if asked.Lasting = len(since) == 0 && len(r.names(keyState)) > 0 && !r.Options[allTime]; len(since) == 0 && !asked.Lasting && !r.Options[allTime] {
		asked.SinceMs = time.Date(now.Year(), now.Month(), now.Day()-1, 0, 0, 0, 0, now.Location()).UnixMilli()
	}
	for _, bound := range []struct {
		words []string
		into  *int64
	}{{since, &asked.SinceMs}, {until, &asked.UntilMs}} {
		if len(bound.words) == 0 {
			continue
		}
		at, err := spec.ParseMoment(strings.Join(bound.words, ","), now)
		if err != nil {
			return nil, err
		}
		*bound.into = at.UnixMilli()
	}
	for _, flag := range r.names(keyCondFlags) {
		if !strings.EqualFold(flag, "open") {
			return nil, refuse("invalid CondFlags: %.64q; there is Open", flag)
		}
		asked.Lasting = true
	}
	if asked.UntilMs != 0 && asked.UntilMs <= asked.SinceMs {
		return nil, refuse("the start of the time is not before its end: give Start and End")
	}
	return asked, nil
}

// meansEvent tests the conditions that the controllers do not.
func (r *Request) meansEvent(event *pb.NodeEvent) bool {
	states := r.names(keyState)
	return (len(states) == 0 || slices.ContainsFunc(states, func(state string) bool { return inState(event.GetState(), state) })) &&
		r.among(keyReason, event.GetReason()) && r.among(keyUser, cmp.Or(event.GetUser(), clusterItself))
}

// inState reports whether a state is one of the parts of an event's: down of DOWN*+DRAIN.
func inState(whole, asked string) bool {
	for part := range strings.SplitSeq(whole, "+") {
		if strings.EqualFold(strings.TrimSuffix(part, "*"), strings.TrimSuffix(asked, "*")) {
			return true
		}
	}
	return strings.EqualFold(whole, asked)
}

// clusterItself is whom Slurm names for what nobody asked for.
const clusterItself = "root"

var eventColumns = []column{
	{[]string{"Cluster"}, "Cluster", 10, func(r *row) string { return r.listing.Cluster }},
	{[]string{"NodeName", "Node"}, "NodeName", 15, func(r *row) string { return r.event.GetNode() }},
	{[]string{"Start", "TimeStart"}, "TimeStart", 19, func(r *row) string { return stamp(r.event.GetStartMs()) }},
	{[]string{"End", "TimeEnd"}, "TimeEnd", 19, func(r *row) string { return stamp(r.event.GetEndMs()) }},
	{[]string{"State"}, "State", 6, func(r *row) string { return r.event.GetState() }},
	{[]string{"Reason"}, "Reason", 30, func(r *row) string { return r.event.GetReason() }},
	{[]string{"User"}, "User", 10, func(r *row) string { return cmp.Or(r.event.GetUser(), clusterItself) }},
	{[]string{"Duration"}, "Duration", 13, func(r *row) string { return spec.FormatTime(durationS(r.event, r.listing.Now)) }},
	{[]string{"CPUCount"}, "CPU Cnt", 7, func(r *row) string { return strconv.FormatUint(uint64(r.event.GetCpus()), 10) }},
	{[]string{"Event"}, "Event", 7, func(*row) string { return "Node" }},
	{[]string{"TRES"}, "TRES", 20, func(r *row) string { return eventTRES(r.event) }},
}

// eventRecord is an event as Slurm's JSON has one ("instance" and "event" of slurmdbd), with
// times in seconds.
func (r *row) eventRecord(record Record) {
	event := r.event
	record["cluster"], record["node_name"], record["reason"] = r.listing.Cluster, event.GetNode(), event.GetReason()
	record["state"], record["reason_uid"] = strings.Split(event.GetState(), "+"), cmp.Or(event.GetUser(), clusterItself)
	record["time_start"], record["time_end"] = event.GetStartMs()/1000, event.GetEndMs()/1000
	record["duration"], record["tres"] = durationS(event, r.listing.Now), eventTRES(event)
}

func eventTRES(event *pb.NodeEvent) string {
	text := "cpu=" + strconv.FormatUint(uint64(event.GetCpus()), 10)
	if event.GetGpus() > 0 {
		text += ",gres/gpu=" + strconv.FormatUint(uint64(event.GetGpus()), 10)
	}
	return text
}

// durationS is how long an event lasted, or has lasted at a time.
func durationS(event *pb.NodeEvent, now time.Time) uint32 {
	end := cmp.Or(event.GetEndMs(), now.UnixMilli())
	return uint32(min(max(end-event.GetStartMs(), 0)/1000, math.MaxUint32-1)) // the largest is UNLIMITED
}

func stamp(ms int64) string {
	if ms == 0 {
		return "Unknown"
	}
	return time.UnixMilli(ms).Format("2006-01-02T15:04:05")
}
