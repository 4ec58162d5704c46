package supervise

import (
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file keeps account of what the time goes to until the devices of an allocation are
// the owner's. Where that is later than the deadline, the owner is told which part was slow.

// Part is a part of parking an allocation, or of killing it in place of that.
type Part int

// The parts.
const (
	PartOrder   Part = iota // the order came after its own deadline
	PartSave                // a save is under way that cannot be given up
	PartPause               // an attempt failed, and the next one follows after a pause
	PartGPU                 // GPU memory is copied
	PartHangUp              // attached clients are disconnected
	PartFreeze              // processes are frozen
	PartOpen                // a process has a device open, and may close it
	PartDevices             // the device rule is changed
	PartKill                // what is not parked dies
	partCount
)

var partTexts = [partCount]string{
	"its order was on the way", "a save of it had to be finished", "an attempt failed, and was made again", "copying its GPU memory", "disconnecting its clients",
	"freezing its processes", "a process had a GPU open", "changing its device rule", "killing its processes",
}

// parts is how long each part took, and which is under way.
type parts struct {
	took  [partCount]time.Duration
	now   Part // 0 = none: PartOrder is over when there is anything to do
	since time.Duration
}

func (p *parts) begin(part Part, now time.Duration) {
	if p.now == part {
		return
	}
	p.end(now)
	p.now, p.since = part, now
}

func (p *parts) end(now time.Duration) {
	if p.now != 0 {
		p.took[p.now] += now - p.since
	}
	p.now = 0
}

// slowest is the part that took longest, and how long.
func (p *parts) slowest() (Part, time.Duration) {
	longest := PartOrder
	for part, took := range p.took {
		if took > p.took[longest] {
			longest = Part(part)
		}
	}
	return longest, p.took[longest]
}

// Begins notes that a part of taking the devices begins, and that the one before is over.
func (p *Park) Begins(part Part, now time.Duration) { p.parts.begin(part, now) }

// Killed notes that the devices are free because the allocation was killed, and answers what
// was measured of that; nil where it was not to be parked.
func (p *Park) Killed(now time.Duration) *pb.HardwareFreed {
	if !p.Wanted || p.Step == Parked {
		return nil
	}
	freed := p.measured(now)
	freed.Killed = true
	return freed
}

// Ended is what was measured of an allocation that was told to end so long ago, and killed
// so long ago; that is not more than 0 if it ended before that.
func Ended(asked, killed time.Duration) *pb.HardwareFreed {
	return &pb.HardwareFreed{TookMs: max(millis(asked), 1), Slowest: partTexts[PartKill], SlowestMs: millis(min(killed, asked))}
}

// SupervisorKilled is what a node measured of an allocation whose supervisor it killed at a
// time, with it, because that did not do what it must.
func SupervisorKilled(by Deadline, killed, now time.Duration) *pb.HardwareFreed {
	return &pb.HardwareFreed{
		TookMs: max(millis(now-by.Kill), 1), LateMs: millis(now - by.By), Slowest: "its supervisor neither parked nor ended it", SlowestMs: max(millis(killed-by.Kill), 1),
	}
}

// measured sums up what the time has gone to until the devices are free.
func (p *Park) measured(now time.Duration) *pb.HardwareFreed {
	p.parts.end(now)
	part, took := p.parts.slowest()
	freed := &pb.HardwareFreed{TookMs: max(millis(now-p.Since), 1), Slowest: partTexts[part], SlowestMs: millis(took)}
	if p.By != 0 {
		freed.LateMs = millis(now - p.By)
	}
	return freed
}

// millis are a duration's milliseconds, at least 0.
func millis(d time.Duration) uint32 { return uint32(max(d, 0).Milliseconds()) }
