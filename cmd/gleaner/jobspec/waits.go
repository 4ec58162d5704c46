package jobspec

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// waits reads what a job waits for, and its fixed priority.
func (b *Builder) waits() {
	v, s := b.Values, b.spec
	if v.Given(optDependency) {
		s.Dependency = v.Text(optDependency)
		if _, err := spec.ParseDependencies(s.Dependency); err != nil {
			b.Fail(1, "Batch job submission failed: %w", err)
		}
	}
	s.BeginMs, s.DeadlineMs = b.moment(optBegin), b.moment(optDeadline)
	if v.Given(optKillOnInvalid) {
		switch strings.ToLower(v.Text(optKillOnInvalid)) {
		case "yes":
			s.KillOnInvalidDependency = proto.Bool(true)
		case "no":
			s.KillOnInvalidDependency = proto.Bool(false)
		default:
			b.Fail(255, "Invalid --%s specification: %q: type yes or no", optKillOnInvalid, v.Text(optKillOnInvalid))
		}
	}
	if v.Given(optPriority) {
		priority, err := ParsePriority(v.Text(optPriority))
		if err != nil {
			b.Fail(1, "Invalid --priority specification: %w", err)
		}
		s.Priority = proto.Uint32(priority)
	}
}

// moment reads a time of sbatch's in the local zone; 0 if it was not given.
func (b *Builder) moment(long string) int64 {
	if !b.Values.Given(long) {
		return 0
	}
	when, err := spec.ParseMoment(b.Values.Text(long), console.Clock())
	if err != nil {
		b.Fail(255, "Invalid --%s specification: %w", long, err)
		return 0
	}
	return when.UnixMilli()
}

// ParsePriority reads a fixed priority; the highest number means none.
func ParsePriority(text string) (uint32, error) {
	priority, err := strconv.ParseUint(text, 10, 32)
	if err != nil || priority == math.MaxUint32 {
		return 0, fmt.Errorf("%.40q: type a whole number up to %d; 0 holds the job", text, uint32(math.MaxUint32-1))
	}
	return uint32(priority), nil
}
