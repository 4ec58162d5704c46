package show

import (
	"cmp"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file shows why a node is reclaimed.

// triggerWord is a trigger in records and JSON: HOURS.
func triggerWord(trigger pb.ReclaimTrigger) string {
	return strings.TrimPrefix(trigger.String(), "RECLAIM_TRIGGER_")
}

// ReclaimedBy is who has reclaimed a node: "bob", "bob and the calendar".
func ReclaimedBy(reclaim *pb.Reclaim) string {
	var texts []string
	for _, hold := range reclaim.GetHolds() {
		texts = append(texts, heldBy(hold))
	}
	switch last := len(texts) - 1; last {
	case -1:
		return cmp.Or(reclaim.GetBy(), "unknown")
	case 0:
		return texts[0]
	default:
		return strings.Join(texts[:last], ", ") + " and " + texts[last]
	}
}

func heldBy(hold *pb.ReclaimHold) string {
	switch who := cmp.Or(hold.GetBy(), "unknown"); hold.GetTrigger() {
	case pb.ReclaimTrigger_RECLAIM_TRIGGER_LOCAL:
		return who + " on the node"
	case pb.ReclaimTrigger_RECLAIM_TRIGGER_HOURS:
		return "the calendar"
	case pb.ReclaimTrigger_RECLAIM_TRIGGER_GPU_PROCESS:
		return "a process on a GPU"
	case pb.ReclaimTrigger_RECLAIM_TRIGGER_LOGIN:
		return "a login of " + who
	default:
		return who
	}
}

// HoldJSON is why a node is reclaimed, as JSON.
type HoldJSON struct {
	Trigger string `json:"trigger"`
	By      string `json:"by"`
	SinceMs int64  `json:"since_ms"`
	UntilMs int64  `json:"until_ms"` // 0 = it does not end by itself
	Detail  string `json:"detail,omitempty"`
}

func holdsJSON(holds []*pb.ReclaimHold) []HoldJSON {
	records := make([]HoldJSON, 0, len(holds))
	for _, h := range holds {
		records = append(records, HoldJSON{Trigger: triggerWord(h.Trigger), By: h.By, SinceMs: h.SinceMs, UntilMs: h.UntilMs, Detail: h.Detail})
	}
	return records
}
