package account

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// row is one line of a table. What it is not about is nil.
type row struct {
	listing     *Listing
	account     *pb.Account
	user        *pb.AccountUser
	association *pb.Association
	qos         *pb.Qos
	event       *pb.NodeEvent
	tres        string
	id          int
	tree        bool
	ownLimits   bool // not those of the accounts above
}

// column is a field of format= by its names in sacctmgr(1).
type column struct {
	names  []string
	header string
	width  int
	value  func(r *row) string
}

var associationColumns = append([]column{
	{[]string{"Cluster"}, "Cluster", 10, func(r *row) string { return r.listing.Cluster }},
	{[]string{"Account"}, "Account", 10, func(r *row) string { return r.indented(r.association.GetAccount()) }},
	{[]string{"User"}, "User", 10, func(r *row) string { return r.association.GetUser() }},
	{[]string{"Partition"}, "Partition", 10, func(r *row) string { return r.association.GetPartition() }},
	{[]string{"ParentName"}, "Par Name", 10, func(r *row) string { return r.association.GetParentAccount() }},
	{[]string{"ParentID"}, "Par ID", 6, func(r *row) string { return idText(r.listing.above(r.association)) }},
	{[]string{"ID"}, "ID", 6, func(r *row) string { return idText(r.association) }},
	{[]string{"Share", "Fairshare"}, "Share", 9, func(r *row) string { return shareText(r.association) }},
	{[]string{"Priority"}, "Priority", 10, func(r *row) string { return unlessZero(r.association.GetPriority()) }},
	{[]string{"QOS", "QosLevel"}, "QOS", 20, func(r *row) string { return strings.Join(r.association.GetAllowedQos(), ",") }},
	{[]string{"DefaultQOS"}, "Def QOS", 9, func(r *row) string { return r.association.GetEffectiveDefaultQos() }},
}, associationLimits()...)

var accountColumns = []column{
	{[]string{"Account", "Name"}, "Account", 10, func(r *row) string { return r.account.GetName() }},
	{[]string{"Description"}, "Descr", 20, func(r *row) string { return r.account.GetDescription() }},
	{[]string{"Organization"}, "Org", 20, func(r *row) string { return r.account.GetOrganization() }},
	{[]string{"Coordinators"}, "Coord Accounts", 20, func(r *row) string { return strings.Join(r.account.GetCoordinators(), ",") }},
}

var userColumns = []column{
	{[]string{"User", "Name"}, "User", 10, func(r *row) string { return r.user.GetName() }},
	{[]string{"DefaultAccount"}, "Def Acct", 10, func(r *row) string { return r.user.GetDefaultAccount() }},
	{[]string{"AdminLevel"}, "Admin", 9, func(r *row) string { return LevelText(r.user.GetLevel()) }},
	{[]string{"Coordinators"}, "Coord Accounts", 20, func(r *row) string { return strings.Join(r.listing.coordinates(r.user.GetName()), ",") }},
}

var qosColumns = append([]column{
	{[]string{"Name"}, "Name", 10, func(r *row) string { return r.qos.GetName() }},
	{[]string{"Description"}, "Descr", 20, func(r *row) string { return r.qos.GetDescription() }},
	{[]string{"Priority"}, "Priority", 10, func(r *row) string { return strconv.FormatUint(uint64(r.qos.GetPriority()), 10) }},
	{[]string{"GraceTime"}, "GraceTime", 10, func(r *row) string { return clock(uint64(r.qos.GetGraceTimeS())) }},
	{[]string{"Preempt"}, "Preempt", 10, func(r *row) string { return strings.Join(r.qos.GetPreempts(), ",") }},
	{[]string{"PreemptExemptTime"}, "PreemptExemptTime", 19, exemptText},
	{[]string{"PreemptMode"}, "PreemptMode", 11, preemptText},
	{[]string{"Flags"}, "Flags", 40, func(r *row) string { return strings.Join(r.qos.GetFlags(), ",") }},
	{[]string{"UsageFactor"}, "UsageFactor", 11, factorText},
}, qosLimits()...)

var tresColumns = []column{
	{[]string{"Type"}, "Type", 8, func(r *row) string { return strings.SplitN(r.tres, "/", 2)[0] }},
	{[]string{"Name"}, "Name", 15, func(r *row) string { _, name, _ := strings.Cut(r.tres, "/"); return name }},
	{[]string{"ID"}, "ID", 6, func(r *row) string { return strconv.Itoa(r.id) }},
}

var clusterColumns = append([]column{
	{[]string{"Cluster", "Name"}, "Cluster", 10, func(r *row) string { return r.listing.Cluster }},
	{[]string{"TRES"}, "TRES", 20, func(r *row) string { return strings.Join(r.listing.TRES, ",") }},
}, associationColumns[7:]...)

var coordinatorColumns = []column{
	{[]string{"Account"}, "Account", 10, func(r *row) string { return r.account.GetName() }},
	{[]string{"User", "Names"}, "User", 10, func(r *row) string { return r.user.GetName() }},
}

func associationLimits() []column {
	var columns []column
	for i := range limits {
		limit := &limits[i]
		if len(limit.names) > 0 {
			columns = append(columns, column{slices.Compact(append([]string{limit.header}, limit.names...)), limit.header, limitWidth(limit, limit.header), func(r *row) string {
				return limitText(limit, r.listing.limit(r.association, limit.kind, !r.ownLimits))
			}})
		}
	}
	return columns
}

func qosLimits() []column {
	var columns []column
	for i := range limits {
		limit := &limits[i]
		columns = append(columns, column{append([]string{limit.headerOfQOS}, limit.ofQOS...), limit.headerOfQOS, limit.width, func(r *row) string {
			return limitText(limit, limitsOf(r.qos.GetLimits(), limit.kind))
		}})
	}
	return columns
}

// limitWidth is that of an association's column: those of QOS with a longer
// name are wider.
func limitWidth(limit *limitRow, header string) int {
	if limit.unit == ofJobs {
		return len(header)
	}
	return limit.width
}

// limitText is a limit as a table shows it: a number, a time, or
// cpu=4,mem=10G.
func limitText(limit *limitRow, set []*pb.Limit) string {
	if len(set) == 0 {
		return ""
	}
	switch limit.unit {
	case ofJobs:
		return strconv.FormatUint(set[0].GetValue(), 10)
	case ofMinutes:
		return clock(set[0].GetValue() * 60)
	}
	amounts := make([]string, len(set))
	for i, one := range sorted(set) {
		value := strconv.FormatUint(one.GetValue(), 10)
		if one.GetTres() == "mem" {
			value = memoryText(one)
		}
		amounts[i] = one.GetTres() + "=" + value
	}
	return strings.Join(amounts, ",")
}

// memoryText is an amount of memory with its unit.
func memoryText(one *pb.Limit) string {
	const most = 1 << 43 // MiB that still fit as bytes
	if !countsMinutes(one.GetKind()) {
		return spec.FormatSize(one.GetValue())
	}
	if one.GetValue() < most {
		return spec.FormatSize(one.GetValue() << 20)
	}
	return strconv.FormatUint(one.GetValue(), 10) + "M"
}

// tresOrder is that of Slurm's numbers; what it has none for follows by name.
var tresOrder = []string{"cpu", "mem", "node", "billing"}

func tresRank(name string) int {
	if at := slices.Index(tresOrder, name); at >= 0 {
		return at
	}
	return len(tresOrder)
}

func compareTRES(a, b string) int {
	if by := tresRank(a) - tresRank(b); by != 0 {
		return by
	}
	return strings.Compare(a, b)
}

func sorted(set []*pb.Limit) []*pb.Limit {
	set = slices.Clone(set)
	slices.SortStableFunc(set, func(a, b *pb.Limit) int { return compareTRES(a.GetTres(), b.GetTres()) })
	return set
}

// clock is seconds as sacctmgr writes times: 00:01:00, 2-00:00:00.
func clock(seconds uint64) string {
	days, rest := seconds/86400, seconds%86400
	text := fmt.Sprintf("%02d:%02d:%02d", rest/3600, rest/60%60, rest%60)
	if days > 0 {
		text = fmt.Sprintf("%d-%s", days, text)
	}
	return text
}

func idText(a *pb.Association) string {
	if a == nil {
		return ""
	}
	return strconv.FormatUint(uint64(a.GetId()), 10)
}

func shareText(a *pb.Association) string {
	if a.GetShareParent() {
		return "parent"
	}
	return strconv.FormatUint(uint64(a.GetShares()), 10)
}

func unlessZero(value uint32) string {
	if value == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(value), 10)
}

// LevelText is an admin level in sacctmgr(1)'s words.
func LevelText(level pb.AdminLevel) string {
	switch level {
	case pb.AdminLevel_ADMIN_LEVEL_OPERATOR:
		return "Operator"
	case pb.AdminLevel_ADMIN_LEVEL_ADMINISTRATOR:
		return "Administrator"
	}
	return "None"
}

func exemptText(r *row) string {
	if r.qos.ExemptTimeS == nil {
		return ""
	}
	return clock(uint64(r.qos.GetExemptTimeS()))
}

func preemptText(r *row) string {
	if r.qos.GetPreemptMode() == "" {
		return "cluster"
	}
	return r.qos.GetPreemptMode()
}

func factorText(r *row) string {
	factor := uint32(1_000_000)
	if r.qos.UsageFactorPpm != nil {
		factor = r.qos.GetUsageFactorPpm()
	}
	return fmt.Sprintf("%d.%06d", factor/1_000_000, factor%1_000_000)
}

// indented is an account's name, indented by its depth, for tree.
func (r *row) indented(name string) string {
	if !r.tree {
		return name
	}
	return strings.Repeat(" ", min(int(r.association.GetDepth()), maxDepth)) + name
}

func sortedNames(names []string) []string {
	names = slices.Clone(names)
	slices.SortStableFunc(names, compareTRES)
	return names
}
