package account

import (
	"math"
	"strconv"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// unit is what a limit counts.
type unit int

const (
	ofJobs unit = iota
	ofMinutes
	ofTRES
)

// limitRow is a limit by its names in sacctmgr(1): those of an association,
// then those of a QOS.
type limitRow struct {
	kind        pb.LimitKind
	names       []string // no names: a QOS has it only
	ofQOS       []string
	unit        unit
	header      string // of its column for associations
	headerOfQOS string
	width       int
}

var limits = []limitRow{
	{pb.LimitKind_LIMIT_KIND_GROUP_JOBS, []string{"GrpJobs"}, []string{"GrpJobs"}, ofJobs, "GrpJobs", "GrpJobs", 7},
	{pb.LimitKind_LIMIT_KIND_GROUP_SUBMIT, []string{"GrpSubmitJobs", "GrpSubmit"}, []string{"GrpSubmitJobs", "GrpSubmit"}, ofJobs, "GrpSubmit", "GrpSubmit", 9},
	{pb.LimitKind_LIMIT_KIND_GROUP_TRES, []string{"GrpTRES"}, []string{"GrpTRES"}, ofTRES, "GrpTRES", "GrpTRES", 13},
	{pb.LimitKind_LIMIT_KIND_GROUP_TRES_MINUTES, []string{"GrpTRESMins"}, []string{"GrpTRESMins"}, ofTRES, "GrpTRESMins", "GrpTRESMins", 13},
	{pb.LimitKind_LIMIT_KIND_GROUP_TRES_RUN_MINUTES, []string{"GrpTRESRunMins"}, []string{"GrpTRESRunMins"}, ofTRES, "GrpTRESRunMin", "GrpTRESRunMin", 13},
	{pb.LimitKind_LIMIT_KIND_GROUP_WALL_MINUTES, []string{"GrpWall"}, []string{"GrpWall"}, ofMinutes, "GrpWall", "GrpWall", 11},
	{pb.LimitKind_LIMIT_KIND_MAX_JOBS, []string{"MaxJobs"}, []string{"MaxJobsPerUser", "MaxJobsPU", "MaxJobs"}, ofJobs, "MaxJobs", "MaxJobsPU", 9},
	{pb.LimitKind_LIMIT_KIND_MAX_SUBMIT, []string{"MaxSubmitJobs", "MaxSubmit"}, []string{"MaxSubmitJobsPerUser", "MaxSubmitJobsPU", "MaxSubmitPU", "MaxSubmitJobs", "MaxSubmit"}, ofJobs, "MaxSubmit", "MaxSubmitPU", 11},
	{pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_JOB, []string{"MaxTRESPerJob", "MaxTRES"}, []string{"MaxTRESPerJob", "MaxTRES"}, ofTRES, "MaxTRES", "MaxTRES", 13},
	{pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_NODE, []string{"MaxTRESPerNode"}, []string{"MaxTRESPerNode"}, ofTRES, "MaxTRESPerNode", "MaxTRESPerNode", 14},
	{pb.LimitKind_LIMIT_KIND_MAX_TRES_MINUTES_PER_JOB, []string{"MaxTRESMinsPerJob", "MaxTRESMins"}, []string{"MaxTRESMinsPerJob", "MaxTRESMins"}, ofTRES, "MaxTRESMins", "MaxTRESMins", 13},
	{pb.LimitKind_LIMIT_KIND_MAX_WALL_MINUTES, []string{"MaxWallDurationPerJob", "MaxWall"}, []string{"MaxWallDurationPerJob", "MaxWall"}, ofMinutes, "MaxWall", "MaxWall", 11},
	{pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_USER, nil, []string{"MaxTRESPerUser", "MaxTRESPU"}, ofTRES, "", "MaxTRESPU", 13},
	{pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_ACCOUNT, nil, []string{"MaxTRESPerAccount", "MaxTRESPA"}, ofTRES, "", "MaxTRESPA", 13},
	{pb.LimitKind_LIMIT_KIND_MAX_JOBS_PER_ACCOUNT, nil, []string{"MaxJobsPerAccount", "MaxJobsPA"}, ofJobs, "", "MaxJobsPA", 9},
	{pb.LimitKind_LIMIT_KIND_MAX_SUBMIT_PER_ACCOUNT, nil, []string{"MaxSubmitJobsPerAccount", "MaxSubmitJobsPA", "MaxSubmitPA"}, ofJobs, "", "MaxSubmitPA", 11},
	{pb.LimitKind_LIMIT_KIND_MIN_TRES_PER_JOB, nil, []string{"MinTRESPerJob", "MinTRES"}, ofTRES, "", "MinTRES", 13},
}

// oldLimits are the names from before there were TRES, each for one of them.
var oldLimits = []struct {
	name string
	kind pb.LimitKind
	tres string
}{
	{"GrpCPUs", pb.LimitKind_LIMIT_KIND_GROUP_TRES, "cpu"}, {"GrpNodes", pb.LimitKind_LIMIT_KIND_GROUP_TRES, "node"}, {"GrpMem", pb.LimitKind_LIMIT_KIND_GROUP_TRES, "mem"},
	{"GrpCPUMins", pb.LimitKind_LIMIT_KIND_GROUP_TRES_MINUTES, "cpu"}, {"GrpCPURunMins", pb.LimitKind_LIMIT_KIND_GROUP_TRES_RUN_MINUTES, "cpu"},
	{"MaxCPUsPerJob", pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_JOB, "cpu"}, {"MaxCPUs", pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_JOB, "cpu"},
	{"MaxNodesPerJob", pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_JOB, "node"}, {"MaxNodes", pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_JOB, "node"},
	{"MaxCPUMinsPerJob", pb.LimitKind_LIMIT_KIND_MAX_TRES_MINUTES_PER_JOB, "cpu"}, {"MaxCPUMins", pb.LimitKind_LIMIT_KIND_MAX_TRES_MINUTES_PER_JOB, "cpu"},
}

func limitKeys() []keyRow {
	var rows []keyRow
	for i := range limits {
		row := &limits[i]
		set := func(c *pb.AccountChange, s Setting) error { return row.set(c, s) }
		if len(row.names) > 0 {
			rows = append(rows, keyRow{names: row.names, set: charged, apply: set})
		}
		rows = append(rows, keyRow{names: qosNames(row), set: QOS, apply: set})
	}
	for _, old := range oldLimits {
		rows = append(rows, keyRow{names: []string{old.name}, set: limited, apply: func(c *pb.AccountChange, s Setting) error {
			return setAmount(c, s, old.kind, old.tres, s.Value)
		}})
	}
	return rows
}

// qosNames begins with a name that no row of associations begins with, so that
// a Request tells which is meant.
func qosNames(row *limitRow) []string {
	return append([]string{"QOS " + row.ofQOS[0]}, row.ofQOS...)
}

func (l *limitRow) set(c *pb.AccountChange, s Setting) error {
	s.Key = strings.TrimPrefix(s.Key, "QOS ")
	change := &pb.LimitChange{Kind: l.kind}
	switch {
	case l.unit == ofTRES:
		return l.setTRES(c, s)
	case s.Value == cleared:
		change.Clear = true
	case l.unit == ofMinutes:
		wall, err := spec.ParseWall(s.Value)
		if err != nil {
			return refuse("Bad value for %s: %v", s.Key, err)
		}
		change.Clear = wall == spec.Unlimited
		if !change.Clear {
			change.Value = uint64(wall) / 60
		}
	default:
		value, err := number(s, math.MaxInt32)
		if err != nil {
			return err
		}
		change.Value = value
	}
	c.Limits = append(c.Limits, change)
	return nil
}

// setTRES reads cpu=4,mem=10G,gres/gpu:a100=2; -1 clears one.
func (l *limitRow) setTRES(c *pb.AccountChange, s Setting) error {
	if strings.TrimSpace(s.Value) == "" {
		return refuse("Bad value for %s: write TRES=NUMBER, such as cpu=64,gres/gpu=8; -1 clears one", s.Key)
	}
	for piece := range strings.SplitSeq(s.Value, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(piece), "=")
		if !found {
			return refuse("Bad value for %s: %.64q; write TRES=NUMBER, such as cpu=64,gres/gpu=8; -1 clears one", s.Key, piece)
		}
		if err := setAmount(c, s, l.kind, tresName(name), value); err != nil {
			return err
		}
	}
	return nil
}

// tresName is a TRES as it is stored: the part before the name in lower case.
func tresName(typed string) string {
	lower := strings.ToLower(typed)
	for _, prefix := range []string{"gres/gpu:", "license/"} {
		if strings.HasPrefix(lower, prefix) {
			return prefix + typed[len(prefix):]
		}
	}
	return lower
}

func setAmount(c *pb.AccountChange, s Setting, kind pb.LimitKind, tres, value string) error {
	change := &pb.LimitChange{Kind: kind, Tres: tres}
	var err error
	switch {
	case value == cleared:
		change.Clear = true
	case tres == "mem":
		change.Value, err = spec.ParseSize(value, 1<<20)
		if countsMinutes(kind) {
			change.Value >>= 20
		}
	default:
		change.Value, err = strconv.ParseUint(value, 10, 64)
	}
	if err != nil {
		return refuse("Bad value for %s: %.64q of %.64s; use a number (mem in MB, or as 64G), or -1 to clear it", strings.TrimPrefix(s.Key, "QOS "), value, tres)
	}
	c.Limits = append(c.Limits, change)
	return nil
}

// countsMinutes reports whether a limit is of minutes, of which memory counts by
// the MiB.
func countsMinutes(kind pb.LimitKind) bool {
	return strings.Contains(kind.String(), "MINUTES")
}
