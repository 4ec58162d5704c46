package state

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file has the records of a job's saves, and of a save that is under way.
// Whether a job can be saved at all, and where an image can be restored, is not
// here: nodes report it, and report it again to the next leader (package
// leader).

// KeptImages is how many images of a job are kept: the newest, and the one
// before in case it cannot be restored.
const KeptImages = 2

// Saved has the saves and images of a job, over all its runs. A stored Saved is
// never changed.
type Saved struct {
	Number uint32  `cbor:"1,keyasint"`           // of the image that was asked for last
	Images []Image `cbor:"2,keyasint,omitempty"` // newest first
	Saves  uint32  `cbor:"3,keyasint,omitempty"` // that succeeded
	// StandingMS is for how long they kept the job frozen, and KeptGPUMS the
	// work that was not lost because a run resumed from an image, in the unit
	// of Preempted.LostGPUMS.
	StandingMS uint64 `cbor:"4,keyasint,omitempty"`
	KeptGPUMS  int64  `cbor:"5,keyasint,omitempty"`
	// The last save, if it failed.
	FailedNumber uint32 `cbor:"6,keyasint,omitempty"`
	Failed       string `cbor:"7,keyasint,omitempty"`
	FailedMS     int64  `cbor:"8,keyasint,omitempty"`
	// Where a job continues that was moved: on To, in the order of its
	// allocations, or if that is empty on any node but From. It is a wish until
	// UntilMS: see Wish.
	To      []string `cbor:"9,keyasint,omitempty"`
	From    string   `cbor:"10,keyasint,omitempty"`
	UntilMS int64    `cbor:"11,keyasint,omitempty"`
	// WaitsMS is since when a job with images waits.
	WaitsMS int64 `cbor:"12,keyasint,omitempty"`
	// Tries are the restores that failed since the job last ran, oldest first.
	Tries []RestoreTry `cbor:"13,keyasint,omitempty"`
	// UndoneMS is how much of the job's run time is lost because images were
	// lost or could not be had: the time from the image that it resumed from,
	// or from its script's start, to the newest. Undone says so of the last
	// time.
	UndoneMS int64  `cbor:"14,keyasint,omitempty"`
	Undone   string `cbor:"15,keyasint,omitempty"`
	// AwayNumber is an image that could not be had when it was to be restored,
	// and AwayMS since when, as long as the job has not run since; 0 = there is
	// none.
	AwayNumber uint32 `cbor:"16,keyasint,omitempty"`
	AwayMS     int64  `cbor:"17,keyasint,omitempty"`
	// AsSaved is the image since which nothing of a waiting job has run: its last run
	// ended frozen by it. 0 = there is none.
	AsSaved uint32 `cbor:"18,keyasint,omitempty"`
	// MoveFailed is the last move, if it failed.
	MoveFailed *MoveFailure `cbor:"20,keyasint,omitempty"`
}

// Image is one image of a job: the processes of all its allocations and their files,
// at one instant. See pb.Image.
type Image struct {
	Number uint32 `cbor:"1,keyasint"`
	Epoch  uint32 `cbor:"2,keyasint"` // of the run it was saved from
	// SavedMS is the instant, in log time, and RanMS how long the job had run
	// then, over all its runs.
	SavedMS    int64        `cbor:"8,keyasint"`
	RanMS      int64        `cbor:"9,keyasint,omitempty"`
	StandingMS uint32       `cbor:"10,keyasint,omitempty"` // for how long it was frozen
	PackMS     uint32       `cbor:"11,keyasint,omitempty"` // until it was durable
	Model      string       `cbor:"13,keyasint,omitempty"` // of the GPUs that it held
	Allocs     []ImageAlloc `cbor:"20,keyasint"`           // in the order of the run's
	// Names are those by which the processes of a job on several nodes know them,
	// if it resumes on others; none = those of Allocs.
	Names []string `cbor:"21,keyasint,omitempty"`
	// Parent is the number of the image from which the run that made it had come when
	// it was made: see lineage.go. 0 = the script's start.
	Parent uint32 `cbor:"22,keyasint,omitempty"`
	// Locks: its processes held locks on files.
	Locks bool `cbor:"23,keyasint,omitempty"`
	// Between is as in Run: the processes have these addresses.
	Between *policy.GangRange `cbor:"720,keyasint,omitempty"`
}

// ImageAlloc is what was saved on one node. Without a digest it is not
// complete.
type ImageAlloc struct {
	Node    string `cbor:"1,keyasint"`
	Digest  Digest `cbor:"2,keyasint"` // of its manifest
	Store   string `cbor:"3,keyasint,omitempty"`
	Bytes   uint64 `cbor:"4,keyasint,omitempty"` // restored
	Written uint64 `cbor:"5,keyasint,omitempty"` // bytes that were new in the store
	// What the allocation held: an allocation that resumes from it holds the same.
	GPUs  uint32 `cbor:"6,keyasint,omitempty"`
	Tasks uint32 `cbor:"7,keyasint,omitempty"`
	Tmp   uint64 `cbor:"8,keyasint,omitempty"` // bytes of the node's disk
	// Copies are other nodes that have it in their own stores, ascending. Lost: the
	// node that made it has it no longer. See image_places.go.
	Copies []string `cbor:"85,keyasint,omitempty"`
	Lost   bool     `cbor:"86,keyasint,omitempty"`
}

// RestoreTry is a restore that failed.
type RestoreTry struct {
	Number uint32 `cbor:"1,keyasint"` // of the image
	Node   string `cbor:"2,keyasint"`
}

// SavePurpose is what a save is for. A later save replaces one that is under
// way only if its purpose ranks higher, in the order here.
type SavePurpose uint8

// Purposes. Numbers are persisted: append only.
const (
	SaveInterval   SavePurpose = 1 // so that little work is lost
	SaveAsked      SavePurpose = 2
	SaveMove       SavePurpose = 3 // to resume elsewhere
	SavePreemption SavePurpose = 4 // to make room
	SavePack       SavePurpose = 5 // a parked job, to resume elsewhere: see reclaim_pack.go
	SaveEvacuation SavePurpose = 6 // to leave a node, without room elsewhere: see evacuate.go
	SaveReplace    SavePurpose = 7 // to resume on nodes of which it has some already
)

// String is the word for the purpose.
func (p SavePurpose) String() string {
	switch p {
	case SaveInterval:
		return "interval"
	case SaveAsked:
		return "asked"
	case SaveMove:
		return "move"
	case SavePreemption:
		return "preemption"
	case SavePack:
		return "pack"
	case SaveEvacuation:
		return "evacuation"
	case SaveReplace:
		return "move"
	}
	return fmt.Sprintf("SavePurpose(%d)", uint8(p))
}

// stands says that the allocation is frozen once it is saved, until it is
// ended.
func (p SavePurpose) stands() bool { return p >= SaveMove }

// Saving is a save that is under way. It belongs to a run, and is gone with it.
type Saving struct {
	Number  uint32      `cbor:"1,keyasint"` // of the image
	Purpose SavePurpose `cbor:"2,keyasint"`
	To      []string    `cbor:"3,keyasint,omitempty"` // of a move; none = any other node
	SinceMS int64       `cbor:"4,keyasint"`
	// DeadlineMS is until when the node must report how it ended.
	DeadlineMS int64 `cbor:"5,keyasint"`
	// Order is that of a preemption, which is executed by other means if saving
	// fails.
	Order *PreemptOrder `cbor:"6,keyasint,omitempty"`
	// Made is the image of a job on several nodes for which some allocations
	// are there, and frozen; nil = none is.
	Made *Image `cbor:"7,keyasint,omitempty"`
}

// image finds an image by its number; nil when it is not kept.
func (s *Saved) image(number uint32) *Image {
	if s == nil {
		return nil
	}
	for i := range s.Images {
		if s.Images[i].Number == number {
			return &s.Images[i]
		}
	}
	return nil
}

// Images are those that are kept of a job, newest first.
func (j *Job) Images() []Image {
	if j.Saved == nil {
		return nil
	}
	return j.Saved.Images
}

// Saving is the save that is under way; nil when none is.
func (j *Job) Saving() *Saving {
	if j.Phase != Running {
		return nil
	}
	return j.Run.Saving
}

// Leaving says that the run ends as soon as it is saved, to make room.
func (j *Job) Leaving() bool {
	saving := j.Saving()
	return saving != nil && saving.Purpose == SavePreemption
}

// withSaved is a copy of a job with a copy of what was saved of it, which may
// then be changed.
func (j *Job) withSaved() (*Job, *Saved) {
	next, saved := *j, Saved{}
	if j.Saved != nil {
		saved = *j.Saved
		saved.Images = slices.Clone(saved.Images)
		saved.Tries = slices.Clone(saved.Tries)
	}
	next.Saved = &saved
	return &next, &saved
}

// setSaving changes the save that is under way in a copy of a job; the run is
// copied too.
func (j *Job) setSaving(saving *Saving) {
	run := *j.Run
	run.Saving = saving
	j.Run = &run
}

// decided notes how a run ends: it can no longer be saved. Allocations that are
// frozen to wait for the others of the job have their time to end like those.
func (j *Job) decided(end *End) {
	j.Phase, j.End = Ending, end
	if saving := j.Run.Saving; saving != nil {
		j.setSaving(nil)
		if j.IsGang() {
			j.Run.Abandoned = saving.Number
		}
	}
	if paused := j.Run.Suspension; paused != nil && paused.Packed != 0 && !end.Frozen {
		run := *j.Run
		run.Abandoned = paused.Packed // it has its time to end
		j.Run = &run
	}
	if away := j.Run.Away; away != nil {
		run := *j.Run
		run.Away = nil
		if !end.Frozen {
			run.Abandoned = away.Number // it has its time to end
		}
		j.Run = &run
	}
	if move := j.Run.Move; move != nil || len(j.Run.Beside) > 0 {
		j.noMove()
		if move != nil && move.Made && !end.Frozen {
			j.Run.Abandoned = move.Number // it has its time to end
		}
	}
}

// workedMS is how long a job has run at a time, including the runs that it
// resumed from.
func (j *Job) workedMS(atMS int64) int64 {
	worked := j.Run.ranMS(atMS)
	if j.Run.Restore != nil {
		worked += j.Run.Restore.RanMS
	}
	return worked
}

// units is the unit of the work of a run: its GPUs, or its CPUs if it has none.
func (r *Run) units() int64 {
	gpus, cpus := 0, 0
	for i := range r.Allocs {
		gpus += len(r.Allocs[i].Devices)
		cpus += len(r.Allocs[i].CPUs)
	}
	if gpus > 0 {
		return int64(gpus)
	}
	return int64(cpus)
}

// over is what stays of a Saved when no image is needed any longer: the counts.
func (s *Saved) over() *Saved {
	if s == nil {
		return nil
	}
	next := *s
	next.Images = nil
	next.forgetTries()
	next.To, next.From, next.UntilMS, next.WaitsMS = nil, "", 0, 0
	return &next
}

// Message is one part of the image as nodes are told of it.
func (i *Image) Message(job uint32, alloc int) *pb.Image {
	p := &i.Allocs[alloc]
	return &pb.Image{
		Alloc: &pb.AllocId{Job: job, Epoch: i.Epoch}, Number: i.Number, Digest: p.Digest[:],
		Store: p.Store, Node: p.Node, Bytes: p.Bytes, Copies: p.Copies, Lost: p.Lost,
	}
}

// KnownAs are the names by which the processes know the nodes, in the order of
// the allocations.
func (i *Image) KnownAs() []string {
	if len(i.Names) > 0 {
		return i.Names
	}
	return i.Nodes()
}

// Nodes are those that made the allocations, in their order.
func (i *Image) Nodes() []string {
	names := make([]string, len(i.Allocs))
	for n := range i.Allocs {
		names[n] = i.Allocs[n].Node
	}
	return names
}
