package state

import "fmt"

// Level is a feature level of the cluster: it says which features the log may
// hold. A controller of an older program stops when it meets a command, or a
// field of one, that it does not know. So a feature that needs a level is
// proposed only when the state has that level, and the leader raises it once
// every member of the cluster has said that it understands it. It never goes
// down: the log and the snapshots may hold such features.
//
// DESIGN.md says when something needs a new level, and what comes with one.
type Level uint32

// LevelFirst is that of the first release. There is no other so far.
const LevelFirst Level = 1

// Newest is the newest level that this program understands.
const Newest = LevelFirst

// leveled is a command that needs a level, or whose contents do.
type leveled interface {
	level() Level
}

// LevelOf is the level that the cluster must have before this command may be
// put into the log.
func LevelOf(command Command) Level {
	if newer, ok := command.(leveled); ok {
		return newer.level()
	}
	return LevelFirst
}

// mustUnderstand refuses a level that this program does not know, whether it
// can read the contents or not.
func mustUnderstand(level Level) error {
	if level > Newest {
		return fmt.Errorf("%w: it needs feature level %d, and this program understands %d", ErrUnknownCommand, level, Newest)
	}
	return nil
}

// Level is the feature level in force.
func (t *tables) Level() Level { return t.level }

// RaiseLevel puts a feature level in force.
type RaiseLevel struct {
	Level Level `cbor:"1,keyasint"`
}

func (RaiseLevel) kind() Kind { return KindRaiseLevel }

func (c RaiseLevel) level() Level { return c.Level }

func (c RaiseLevel) apply(s *State, _ *Result) { s.level = max(s.level, c.Level) }
