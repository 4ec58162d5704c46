package state

import (
	"testing"

	"github.com/gleaner-hpc/gleaner/sched"
)

// TestSuspendNeedsItsLevel: what older controllers refuse, or do not know, is
// neither proposed nor carried out below the level that brought it.
func TestSuspendNeedsItsLevel(t *testing.T) {
	mode := sched.PreemptSuspend
	policy := *DefaultPolicy()
	policy.Preempt = PreemptPolicy{Type: sched.PreemptByQOS, Mode: mode}
	inPartition := *DefaultPolicy()
	inPartition.Partitions = append([]Partition(nil), inPartition.Partitions...)
	inPartition.Partitions[0].PreemptMode = mode
	accounts := ChangeAccounts{Changes: []AccountChange{{Action: AddRecord, Record: QOSRecord, QOS: "low", PreemptMode: &mode}}}
	for _, command := range []Command{
		SuspendJobs{}, ResumeJobs{}, PartsSuspended{}, ContinueJobs{}, accounts,
		ApplyPolicy{Policy: policy}, ApplyPolicy{Policy: inPartition},
		PreemptJobs{Preemptions: []PreemptOrder{{Suspend: true}}},
		RegisterNode{Running: []RunningPart{{SuspendNumber: 1}}},
	} {
		if LevelOf(command) != LevelFrozen {
			t.Errorf("%s needs level %d", command.kind(), LevelOf(command))
		}
	}
	register := RegisterNode{SentBootNS: 1, Running: []RunningPart{{Job: 1, SuspendNumber: 1, Stands: true}}}
	if LevelOf(register.At(LevelShares)) != LevelPeers || register.Running[0].SuspendNumber != 1 {
		t.Error("a registration for an older cluster")
	}
	for _, command := range []Command{accounts, ApplyPolicy{Policy: policy}, ApplyPolicy{Policy: inPartition}} {
		s := New()
		s.level = LevelShares
		if result := applyCommand(t, s, command, RequestID{}, 1); result.Refused == nil {
			t.Errorf("%s is carried out at a level of before", command.kind())
		}
		s.level = LevelFrozen
		if result := applyCommand(t, s, command, RequestID{}, 1); result.Refused != nil {
			t.Errorf("%s: %v", command.kind(), result.Refused)
		}
	}
}
