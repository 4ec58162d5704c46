package state

import "fmt"

// Level is a feature level of the cluster: how new the newest thing is that
// its log may hold. A controller of an older program stops when it meets a
// command, or a field of one, that it does not know. So what needs a level is
// proposed only when the state has that level, and the leader raises it once
// every member of the cluster has said that it understands it. It never goes
// down: the log and the snapshots may hold what needs it.
type Level uint32

// Levels, each with what it brought. To add something that older programs do
// not know, take the level of the coming release, and let the command say
// that it needs it (leveled); what a command stores must not be written by
// Persist before it was used.
const (
	LevelFirst Level = 1 // all before there were levels
	LevelPeers Level = 2 // RaiseLevel; several controllers
	// LevelShares: accounts, QOS, limits, dependencies, preemption.
	LevelShares Level = 3
	// LevelFrozen: jobs that stand still: suspension, images, moves.
	LevelFrozen Level = 4
)

// leveled is a command that not every level has, or not with these contents.
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

// mustUnderstand refuses what this program does not know, whether it can read
// it or not.
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

// level is at least that which brought the command itself.
func (c RaiseLevel) level() Level { return max(c.Level, LevelPeers) }

func (c RaiseLevel) apply(s *State, _ *Result) { s.level = max(s.level, c.Level) }
