package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/sched"
)

// Limits bound what an association or a QOS may have. nil is no limit; 0 is a
// limit. In brackets: the names of sacctmgr(1), for associations and for QOS.
type Limits struct {
	GroupJobs            *uint32      `cbor:"1,keyasint,omitempty"`  // GrpJobs
	GroupSubmit          *uint32      `cbor:"2,keyasint,omitempty"`  // GrpSubmitJobs
	GroupTRES            []TRESAmount `cbor:"3,keyasint,omitempty"`  // GrpTRES
	GroupTRESMinutes     []TRESAmount `cbor:"4,keyasint,omitempty"`  // GrpTRESMins
	GroupTRESRunMinutes  []TRESAmount `cbor:"5,keyasint,omitempty"`  // GrpTRESRunMins
	GroupWallMinutes     *uint32      `cbor:"6,keyasint,omitempty"`  // GrpWall
	MaxJobs              *uint32      `cbor:"7,keyasint,omitempty"`  // MaxJobs, MaxJobsPerUser
	MaxSubmit            *uint32      `cbor:"8,keyasint,omitempty"`  // MaxSubmitJobs, MaxSubmitJobsPerUser
	MaxTRESPerJob        []TRESAmount `cbor:"9,keyasint,omitempty"`  // MaxTRES, MaxTRESPerJob
	MaxTRESPerNode       []TRESAmount `cbor:"10,keyasint,omitempty"` // MaxTRESPerNode
	MaxTRESMinutesPerJob []TRESAmount `cbor:"11,keyasint,omitempty"` // MaxTRESMins
	MaxWallMinutes       *uint32      `cbor:"12,keyasint,omitempty"` // MaxWall
	MaxTRESPerUser       []TRESAmount `cbor:"13,keyasint,omitempty"` // QOS only, and so the rest
	MaxTRESPerAccount    []TRESAmount `cbor:"14,keyasint,omitempty"`
	MaxJobsPerAccount    *uint32      `cbor:"15,keyasint,omitempty"`
	MaxSubmitPerAccount  *uint32      `cbor:"16,keyasint,omitempty"`
	MinTRESPerJob        []TRESAmount `cbor:"17,keyasint,omitempty"`
}

// TRESAmount is an amount of one TRES: see sched.Amounts. Memory is in bytes,
// and by the MiB where minutes are counted.
type TRESAmount struct {
	Name  string `cbor:"1,keyasint"`
	Count uint64 `cbor:"2,keyasint"`
}

// LimitKind is one of the Limits. The numbers are their keys there.
type LimitKind uint8

// Kinds of limit.
const (
	LimitGroupJobs            LimitKind = 1
	LimitGroupSubmit          LimitKind = 2
	LimitGroupTRES            LimitKind = 3
	LimitGroupTRESMinutes     LimitKind = 4
	LimitGroupTRESRunMinutes  LimitKind = 5
	LimitGroupWallMinutes     LimitKind = 6
	LimitMaxJobs              LimitKind = 7
	LimitMaxSubmit            LimitKind = 8
	LimitMaxTRESPerJob        LimitKind = 9
	LimitMaxTRESPerNode       LimitKind = 10
	LimitMaxTRESMinutesPerJob LimitKind = 11
	LimitMaxWallMinutes       LimitKind = 12
	LimitMaxTRESPerUser       LimitKind = 13
	LimitMaxTRESPerAccount    LimitKind = 14
	LimitMaxJobsPerAccount    LimitKind = 15
	LimitMaxSubmitPerAccount  LimitKind = 16
	LimitMinTRESPerJob        LimitKind = 17
	lastLimit                           = LimitMinTRESPerJob
)

// limitRow says where a limit is kept. One of count and amounts is set.
type limitRow struct {
	name    string // sacctmgr(1)'s, of an association
	ofQOS   string // of a QOS, where it has another
	qosOnly bool
	count   func(*Limits) **uint32
	amounts func(*Limits) *[]TRESAmount
}

var limitRows = [lastLimit + 1]limitRow{
	LimitGroupJobs:            {name: "GrpJobs", count: func(l *Limits) **uint32 { return &l.GroupJobs }},
	LimitGroupSubmit:          {name: "GrpSubmitJobs", count: func(l *Limits) **uint32 { return &l.GroupSubmit }},
	LimitGroupTRES:            {name: "GrpTRES", amounts: func(l *Limits) *[]TRESAmount { return &l.GroupTRES }},
	LimitGroupTRESMinutes:     {name: "GrpTRESMins", amounts: func(l *Limits) *[]TRESAmount { return &l.GroupTRESMinutes }},
	LimitGroupTRESRunMinutes:  {name: "GrpTRESRunMins", amounts: func(l *Limits) *[]TRESAmount { return &l.GroupTRESRunMinutes }},
	LimitGroupWallMinutes:     {name: "GrpWall", count: func(l *Limits) **uint32 { return &l.GroupWallMinutes }},
	LimitMaxJobs:              {name: "MaxJobs", ofQOS: "MaxJobsPerUser", count: func(l *Limits) **uint32 { return &l.MaxJobs }},
	LimitMaxSubmit:            {name: "MaxSubmitJobs", ofQOS: "MaxSubmitJobsPerUser", count: func(l *Limits) **uint32 { return &l.MaxSubmit }},
	LimitMaxTRESPerJob:        {name: "MaxTRESPerJob", amounts: func(l *Limits) *[]TRESAmount { return &l.MaxTRESPerJob }},
	LimitMaxTRESPerNode:       {name: "MaxTRESPerNode", amounts: func(l *Limits) *[]TRESAmount { return &l.MaxTRESPerNode }},
	LimitMaxTRESMinutesPerJob: {name: "MaxTRESMinsPerJob", amounts: func(l *Limits) *[]TRESAmount { return &l.MaxTRESMinutesPerJob }},
	LimitMaxWallMinutes:       {name: "MaxWallDurationPerJob", count: func(l *Limits) **uint32 { return &l.MaxWallMinutes }},
	LimitMaxTRESPerUser:       {name: "MaxTRESPerUser", qosOnly: true, amounts: func(l *Limits) *[]TRESAmount { return &l.MaxTRESPerUser }},
	LimitMaxTRESPerAccount:    {name: "MaxTRESPerAccount", qosOnly: true, amounts: func(l *Limits) *[]TRESAmount { return &l.MaxTRESPerAccount }},
	LimitMaxJobsPerAccount:    {name: "MaxJobsPerAccount", qosOnly: true, count: func(l *Limits) **uint32 { return &l.MaxJobsPerAccount }},
	LimitMaxSubmitPerAccount:  {name: "MaxSubmitJobsPerAccount", qosOnly: true, count: func(l *Limits) **uint32 { return &l.MaxSubmitPerAccount }},
	LimitMinTRESPerJob:        {name: "MinTRESPerJob", qosOnly: true, amounts: func(l *Limits) *[]TRESAmount { return &l.MinTRESPerJob }},
}

// row finds where a limit is kept; an unknown kind has no name.
func (k LimitKind) row() *limitRow {
	if k > lastLimit {
		k = 0
	}
	return &limitRows[k]
}

// LimitChange sets one limit, or takes it away.
type LimitChange struct {
	Limit LimitKind `cbor:"1,keyasint"`
	TRES  string    `cbor:"2,keyasint,omitempty"` // of a limit that each TRES has
	Value uint64    `cbor:"3,keyasint,omitempty"`
	Clear bool      `cbor:"4,keyasint,omitempty"`
}

// check says what is wrong with a change of a limit of an association, or of a
// QOS.
func (c *LimitChange) check(ofQOS bool) *Refusal {
	row := c.Limit.row()
	switch {
	case row.name == "":
		return refuse(Invalid, "no limit has the number %d", c.Limit)
	case row.qosOnly && !ofQOS:
		return refuse(Invalid, "%s is a limit of a QOS, not of an account or a user: set it with modify qos", row.name)
	case row.amounts != nil && !validTRES(c.TRES):
		return refuse(Invalid, "%s=%s: no such TRES: use cpu, mem, node, billing, gres/gpu, gres/gpu:MODEL or license/NAME", row.name, bounds.Clip(c.TRES, 64))
	case row.amounts == nil && c.TRES != "":
		return refuse(Invalid, "%s is one number and has no TRES: type %s=NUMBER", row.name, row.name)
	case row.amounts == nil && c.Value > bounds.MaxLimitCount:
		return refuse(Invalid, "%s=%d is too high: at most %d, or -1 for no limit", row.name, c.Value, bounds.MaxLimitCount)
	case c.Value > bounds.MaxLimitAmount:
		return refuse(Invalid, "%s=%s=%d is too high: at most %d, or -1 for no limit", row.name, c.TRES, c.Value, uint64(bounds.MaxLimitAmount))
	}
	return nil
}

// changed is the limits with some set or taken away.
func (l Limits) changed(changes []LimitChange) Limits {
	for i := range changes {
		c := &changes[i]
		row := c.Limit.row()
		if row.amounts != nil {
			amounts := row.amounts(&l)
			*amounts = withAmount(*amounts, c)
			continue
		}
		*row.count(&l) = nil
		if value := uint32(c.Value); !c.Clear {
			*row.count(&l) = &value
		}
	}
	return l
}

// withAmount is a new list, ascending by name; nil when nothing is left.
func withAmount(old []TRESAmount, c *LimitChange) []TRESAmount {
	var amounts []TRESAmount
	for _, amount := range old {
		if amount.Name != c.TRES {
			amounts = append(amounts, amount)
		}
	}
	if !c.Clear {
		amounts = append(amounts, TRESAmount{Name: c.TRES, Count: c.Value})
	}
	slices.SortFunc(amounts, func(a, b TRESAmount) int { return cmp.Compare(a.Name, b.Name) })
	return amounts
}

// check says what no sequence of changes could have made.
func (l *Limits) check(ofQOS bool) error {
	for kind := LimitKind(1); kind <= lastLimit; kind++ {
		row := kind.row()
		if row.amounts == nil {
			if value := *row.count(l); value != nil && (*value > bounds.MaxLimitCount || row.qosOnly && !ofQOS) {
				return fmt.Errorf("its %s is impossible", row.name)
			}
			continue
		}
		amounts := *row.amounts(l)
		for i, amount := range amounts {
			if !validTRES(amount.Name) || amount.Count > bounds.MaxLimitAmount || i > 0 && amounts[i-1].Name >= amount.Name || row.qosOnly && !ofQOS {
				return fmt.Errorf("its %s is impossible", row.name)
			}
		}
	}
	return nil
}

// validTRES reports whether a limit can be on a TRES of this name.
func validTRES(name string) bool {
	switch name {
	case sched.TRESBilling, sched.TRESCPU, sched.TRESGPU, sched.TRESMemory, sched.TRESNode:
		return true
	}
	for _, prefix := range []string{sched.TRESGPU + ":", policy.LicensePrefix} {
		if rest, found := strings.CutPrefix(name, prefix); found {
			return bounds.ValidName(rest)
		}
	}
	return false
}
