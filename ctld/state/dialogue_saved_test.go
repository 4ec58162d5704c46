package state

import (
	"fmt"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file has the words of dialogues about jobs that are saved:
//
//	save 3 by=1000 [interval]             migrate 3 by=1000 [to=n2,n3]
//	saved 3.1 n1 image=1 [stands] [locks] [pack=SECONDS] [stood=SECONDS] [error=TEXT] [store=NAME]
//	abandon 3.1 image=1 reason=TEXT       drop 3.1 [gone=1] reason=TEXT
//	fail-move 3.2 image=1 [node=n2] reason=TEXT   run 3.2 cannot continue there; no node = the move is off
//	place 3 n2:0 image=1                  the job resumes from it
//	images, needed, losses                what is kept, by job and by node; how often nodes were lost
//	late-saves                            which are to be given up, and why

func (d *dialogue) saves(verb string, a arguments) Command {
	switch verb {
	case "save", "migrate":
		command := SaveJobs{Targets: d.targets(a), UID: a.number("by"), Privileged: a.is("privileged"), Purpose: SaveAsked}
		if to := a.values["to"]; to != "" {
			command.To = strings.Split(to, ",")
		}
		if a.is("interval") {
			command.Purpose = SaveInterval
		}
		if verb == "migrate" {
			command.Purpose = SaveMove
		}
		return command
	}
	job, epoch := d.alloc(a.words[0])
	switch verb {
	case "fail-move":
		ref := MoveRef{Job: job, Number: a.number("image"), Reason: a.values["reason"], Node: a.values["node"]}
		if ref.Node != "" {
			ref.Epoch = epoch
		}
		return FailMoves{Moves: []MoveRef{ref}}
	case "abandon":
		return AbandonSaves{Saves: []SaveRef{{job, epoch, a.number("image"), a.values["reason"]}}}
	case "copied", "gone": // n2 has a copy of what n1 made, or has it no longer: copied 1.1 n1 n2 image=N
		digest := blobDigest([]byte(a.words[0] + a.words[1] + a.values["image"]))
		return NoteImagePlaces{Places: []ImagePlace{{Job: job, Number: a.number("image"), Digest: digest, Node: a.words[2], Gone: verb == "gone"}}}
	case "drop":
		drop := ImageDrop{Job: job, Epoch: epoch, Reason: a.values["reason"]}
		if number := a.number("gone"); number != 0 {
			drop.Numbers = []uint32{number}
		}
		return DropImages{Drops: []ImageDrop{drop}}
	}
	message := &pb.AllocSaved{
		Alloc: &pb.AllocId{Job: job, Epoch: epoch}, Number: a.number("image"), Frozen: a.is("stands"), Locks: a.is("locks"),
		StandingMs: a.number("stood") * 1000, PackMs: a.number("pack") * 1000, Error: a.values["error"], WrittenBytes: 1 << 20,
	}
	if message.Error == "" {
		digest := blobDigest([]byte(a.words[0] + a.words[1] + a.values["image"]))
		message.Image = &pb.Image{Alloc: message.Alloc, Number: message.Number, Digest: digest[:], Node: a.words[1], Bytes: 1 << 30, Store: a.values["store"]}
	}
	return AllocsSaved{Reports: []SaveReport{SaveReportFromMessage(a.words[1], message)}}
}

func asSavedText(order *pb.StartAlloc) string {
	if order.GetAsSaved() {
		return " as saved"
	}
	return ""
}

// images is what is known of each job that was to be saved.
func (d *dialogue) images() string {
	v := d.state.View()
	var out strings.Builder
	for job := range v.Jobs(0) {
		m := v.JobMessage(job, Overlay{}, JobDetail{}).Saved
		if m == nil {
			continue
		}
		fmt.Fprintf(&out, "%d", job.ID)
		if s := m.Saving; s != nil {
			fmt.Fprintf(&out, " saves image %d: %s", s.Number, s.Purpose)
			if s.To != "" {
				out.WriteString(" to " + s.To)
			}
			if s.ForJob != 0 {
				fmt.Fprintf(&out, " for job %d", s.ForJob)
			}
		}
		for _, image := range m.Images {
			fmt.Fprintf(&out, " [%d of run %d on %s", image.Number, image.Epoch, image.Node)
			if image.Store != "" {
				out.WriteString(" in " + image.Store)
			}
			if image.Copies != "" {
				out.WriteString(" and " + image.Copies)
			}
			fmt.Fprintf(&out, " after %d s", image.RanMs/1000)
			if image.Parent != 0 {
				fmt.Fprintf(&out, " from %d", image.Parent)
			}
			out.WriteString("]")
		}
		if next := v.NextImage(job, max(d.nowMS, v.TimeMS())); next != nil {
			sets, failed := v.RestoreSets(job, next, func(int, string) bool { return false })
			if len(sets) == 0 {
				sets = failed
			}
			fmt.Fprintf(&out, " resumes from %d%s on %s", next.Number, asSavedText(v.StartLike(job, next, 0, "")), setsText(job.Wish(sets, nil, d.nowMS)))
		}
		if b := job.Successor(); b != nil && b.Run.Restore != nil {
			order, err := v.StartAlloc(job.ID, b.Run.BatchHost())
			if err != nil {
				return err.Error()
			}
			fmt.Fprintf(&out, " moves with %d%s", b.Run.Restore.Number, asSavedText(order))
		}
		if from := m.RestoredFrom; from != nil {
			fmt.Fprintf(&out, " resumed from %d", from.Number)
		}
		fmt.Fprintf(&out, "; %d saves, stood %d s, kept %d GPU-s", m.Saves, m.StandingMs/1000, m.KeptGpuMs/1000)
		if m.Failed != "" {
			fmt.Fprintf(&out, "; image %d failed: %s", m.FailedNumber, m.Failed)
		}
		if m.Undone != "" {
			fmt.Fprintf(&out, "; undone %d s: %s", m.UndoneMs/1000, m.Undone)
		}
		if moving := m.Moving; moving != nil {
			fmt.Fprintf(&out, "; moves to %s as run %d, stands: %t", moving.To, job.Successor().Epoch, moving.Frozen)
		}
		if failed := m.MoveFailed; failed != nil {
			fmt.Fprintf(&out, "; not moved with image %d: %s", failed.Number, failed.Reason)
			for _, try := range failed.Tries {
				fmt.Fprintf(&out, " [%s: %s]", try.Node, try.Reason)
			}
		}
		if m.Leaves != "" {
			fmt.Fprintf(&out, "; leaves %s", m.Leaves)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// setsText writes sets of nodes: "n1,n2" are two of one node, "n1+n2" is one of two.
func setsText(sets [][]string) string {
	texts := make([]string, len(sets))
	for i, set := range sets {
		texts[i] = strings.Join(set, "+")
	}
	return strings.Join(texts, ",")
}

// needed is which images each node has to keep.
func (d *dialogue) needed() string {
	v := d.state.View()
	needed := v.NeededImages()
	var out strings.Builder
	for node := range v.Nodes() {
		for _, image := range needed[node.Name] {
			fmt.Fprintf(&out, "%s keeps image %d of job %d\n", node.Name, image.Number, image.Alloc.Job)
		}
	}
	return out.String()
}

func (d *dialogue) lateSaves() string {
	var out strings.Builder
	for _, late := range d.state.View().LateSaves(d.nowMS) {
		fmt.Fprintf(&out, "image %d of %d.%d: %s\n", late.Number, late.Job, late.Epoch, late.Reason)
	}
	return out.String()
}

func (d *dialogue) losses() string {
	var out strings.Builder
	for node := range d.state.View().Nodes() {
		fmt.Fprintf(&out, "%s %d\n", node.Name, node.Losses)
	}
	return out.String()
}
