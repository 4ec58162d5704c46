package show

import (
	"fmt"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// LimitSet are the limits that one association or QOS has.
type LimitSet []*pb.Limit

// Find is the limit of one kind, of one TRES or "".
func (s LimitSet) Find(kind pb.LimitKind, tres string) (uint64, bool) {
	for _, limit := range s {
		if limit.GetKind() == kind && limit.GetTres() == tres {
			return limit.GetValue(), true
		}
	}
	return 0, false
}

// Plain is a limit, or nothing.
func (s LimitSet) Plain(kind pb.LimitKind) string {
	if value, set := s.Find(kind, ""); set {
		return Digits(value)
	}
	return ""
}

// Used is LIMIT(USED); it is none where there is no limit, and "" for nothing
// at all.
func (s LimitSet) Used(kind pb.LimitKind, used uint64, none string) string {
	limit := s.Plain(kind)
	if limit == "" && none == "" {
		return ""
	}
	if limit == "" {
		limit = none
	}
	return fmt.Sprintf("%s(%d)", limit, used)
}

// Tres is the amounts of one limit, or nothing.
func (s LimitSet) Tres(kind pb.LimitKind) string {
	var words []string
	for _, limit := range s {
		if limit.GetKind() == kind {
			words = append(words, Item(limit.GetTres(), LimitAmount(kind, limit.GetTres(), limit.GetValue())))
		}
	}
	return strings.Join(words, ",")
}

// MemoryTRES is the TRES that is counted in bytes.
const MemoryTRES = "mem"

// OverTime reports whether a limit is of minutes; memory is in MiB there.
func OverTime(kind pb.LimitKind) bool {
	return kind == pb.LimitKind_LIMIT_KIND_GROUP_TRES_MINUTES || kind == pb.LimitKind_LIMIT_KIND_GROUP_TRES_RUN_MINUTES || kind == pb.LimitKind_LIMIT_KIND_MAX_TRES_MINUTES_PER_JOB
}

// LimitAmount is a limit as scontrol writes it, memory in MiB.
func LimitAmount(kind pb.LimitKind, tres string, value uint64) string {
	if tres == MemoryTRES && !OverTime(kind) {
		return Digits(value >> 20)
	}
	return Digits(value)
}
