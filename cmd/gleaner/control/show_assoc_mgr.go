package control

import (
	"bufio"
	"fmt"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/account"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// limitKinds are the records that flags= names, as in scontrol(1).
var limitKinds = map[string]pb.LimitRecord{
	"users": pb.LimitRecord_LIMIT_RECORD_USERS, "assoc": pb.LimitRecord_LIMIT_RECORD_ASSOCIATIONS, "qos": pb.LimitRecord_LIMIT_RECORD_QOS,
}

// showAssocMgr prints users, associations and QOS with their limits, and in
// brackets what counts for each now.
func showAssocMgr(c *controlRun, words []string) error {
	request := &pb.ListLimitsRequest{}
	for _, word := range words {
		key, value, assigns := strings.Cut(word, "=")
		names := strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
		switch {
		case !assigns || key == "":
			return c.inv.Fail("show assoc_mgr: invalid entity %q: type users=NAMES, accounts=NAMES, qos=NAMES or flags=users,assoc,qos", word)
		case abbreviates(key, "users"): // without a name: all
			request.Users = append(request.Users, names...)
		case abbreviates(key, "accounts"):
			request.Accounts = append(request.Accounts, names...)
		case abbreviates(key, "qos"):
			request.Qos = append(request.Qos, names...)
		case abbreviates(key, "flags"):
			for _, flag := range names {
				kind, known := limitKinds[strings.ToLower(flag)]
				if !known {
					return c.inv.Fail("show assoc_mgr: there is no flag %q: type users, assoc or qos", flag)
				}
				request.Kinds = append(request.Kinds, kind)
			}
		default:
			return c.inv.Fail("show assoc_mgr: invalid entity %q: type users=NAMES, accounts=NAMES, qos=NAMES or flags=users,assoc,qos", word)
		}
	}
	all := &pb.ListLimitsResponse{}
	err := client.List(c.inv.Context, c.client, c.client.ListLimits, request, func() bool { all = &pb.ListLimitsResponse{}; return true }, func(part *pb.ListLimitsResponse) error {
		if all.Tres == nil {
			all.Cluster, all.Tres, all.Enforced = part.Cluster, part.Tres, part.Enforced
		}
		all.Users = append(all.Users, part.Users...)
		all.Associations = append(all.Associations, part.Associations...)
		all.Qos = append(all.Qos, part.Qos...)
		return nil
	})
	if err != nil {
		return client.LoadError(c.inv, client.LoadAssocMgr, err)
	}
	if c.json != show.JSONNone {
		return c.writeLimitsJSON(all)
	}
	p := &limitPrinter{Writer: bufio.NewWriter(c.inv.Stdout), all: all, separator: "\n    ", end: "\n"}
	if c.oneLine {
		p.separator = " "
	}
	p.print(request.Kinds)
	return p.Flush()
}

// abbreviates reports whether a key is a word or its beginning, as scontrol takes them.
func abbreviates(key, word string) bool { return strings.HasPrefix(word, strings.ToLower(key)) }

// limitPrinter writes limits as scontrol does: GrpJobs=LIMIT(USED), N where
// there is no limit.
type limitPrinter struct {
	*bufio.Writer
	all            *pb.ListLimitsResponse
	separator, end string
}

func (p *limitPrinter) print(kinds []pb.LimitRecord) {
	wanted := func(kind pb.LimitRecord) bool { return len(kinds) == 0 || slices.Contains(kinds, kind) }
	fmt.Fprint(p, "Current Association Manager state\n")
	if !p.all.Enforced {
		fmt.Fprint(p, "Limits are not enforced: [accounting] enforce in cluster.toml does not name limits\n")
	}
	if wanted(pb.LimitRecord_LIMIT_RECORD_USERS) {
		fmt.Fprint(p, "\nUser Records\n\n")
		for _, user := range p.all.Users {
			p.record(show.Item("UserName", user.Name) + " " + show.Item("DefAccount", show.OrNull(user.DefaultAccount)) + " DefWckey=(null) " + show.Item("AdminLevel", account.LevelText(user.Level)))
		}
	}
	if wanted(pb.LimitRecord_LIMIT_RECORD_ASSOCIATIONS) {
		fmt.Fprint(p, "\nAssociation Records\n\n")
		for _, record := range p.all.Associations {
			p.association(record)
		}
	}
	if wanted(pb.LimitRecord_LIMIT_RECORD_QOS) {
		fmt.Fprint(p, "\nQOS Records\n\n")
		for _, record := range p.all.Qos {
			p.qos(record)
		}
	}
}

func (p *limitPrinter) record(lines ...string) {
	fmt.Fprint(p, strings.Join(lines, p.separator), p.end)
}

func (p *limitPrinter) association(record *pb.AssociationUse) {
	a, limits := record.GetAssociation(), show.LimitSet(record.GetAssociation().GetLimits())
	shares := show.Digits(a.GetShares())
	if a.GetShareParent() {
		shares = "parent"
	}
	lines := []string{
		show.Item("ClusterName", p.all.Cluster) + " " + show.Item("Account", a.GetAccount()) + " " + show.Item("UserName", a.GetUser()) + " " + show.Item("Partition", a.GetPartition()) +
			fmt.Sprintf(" Priority=%d ID=%d", a.GetPriority(), a.GetId()),
		"SharesRaw=" + shares + " " + show.Item("ParentAccount", a.GetParentAccount()),
	}
	lines = append(lines, p.group(limits, record.GetUse())...)
	lines = append(lines,
		"MaxJobs="+limits.Used(pb.LimitKind_LIMIT_KIND_MAX_JOBS, record.GetUse().GetJobs(), "")+
			" MaxSubmitJobs="+limits.Used(pb.LimitKind_LIMIT_KIND_MAX_SUBMIT, record.GetUse().GetSubmitted(), "")+
			" MaxWallPJ="+limits.Plain(pb.LimitKind_LIMIT_KIND_MAX_WALL_MINUTES),
		"MaxTRESPJ="+limits.Tres(pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_JOB),
		"MaxTRESPN="+limits.Tres(pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_NODE),
		"MaxTRESMinsPJ="+limits.Tres(pb.LimitKind_LIMIT_KIND_MAX_TRES_MINUTES_PER_JOB),
	)
	p.record(lines...)
}

// group is what bounds an association or a QOS as a whole.
func (p *limitPrinter) group(limits show.LimitSet, use *pb.LimitUse) []string {
	return []string{
		"GrpJobs=" + limits.Used(pb.LimitKind_LIMIT_KIND_GROUP_JOBS, use.GetJobs(), "N") +
			" GrpSubmitJobs=" + limits.Used(pb.LimitKind_LIMIT_KIND_GROUP_SUBMIT, use.GetSubmitted(), "N") +
			" GrpWall=" + limits.Used(pb.LimitKind_LIMIT_KIND_GROUP_WALL_MINUTES, use.GetWallMinutes(), "N"),
		"GrpTRES=" + p.amounts(limits, pb.LimitKind_LIMIT_KIND_GROUP_TRES, use.GetTres()),
		"GrpTRESMins=" + p.amounts(limits, pb.LimitKind_LIMIT_KIND_GROUP_TRES_MINUTES, use.GetTresMinutes()),
		"GrpTRESRunMins=" + p.amounts(limits, pb.LimitKind_LIMIT_KIND_GROUP_TRES_RUN_MINUTES, use.GetTresRunMinutes()),
	}
}

func (p *limitPrinter) qos(record *pb.QosUse) {
	q, limits := record.GetQos(), show.LimitSet(record.GetQos().GetLimits())
	lines := append([]string{show.Item("QOS", q.GetName())}, p.group(limits, record.GetUse())...)
	lines = append(lines,
		"MaxWallPJ="+limits.Plain(pb.LimitKind_LIMIT_KIND_MAX_WALL_MINUTES),
		"MaxTRESPJ="+limits.Tres(pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_JOB),
		"MaxTRESPN="+limits.Tres(pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_NODE),
		"MaxTRESPU="+limits.Tres(pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_USER),
		"MaxTRESPA="+limits.Tres(pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_ACCOUNT),
		"MaxTRESMinsPJ="+limits.Tres(pb.LimitKind_LIMIT_KIND_MAX_TRES_MINUTES_PER_JOB),
		"MinTRESPJ="+limits.Tres(pb.LimitKind_LIMIT_KIND_MIN_TRES_PER_JOB),
		show.Item("PreemptMode", show.OrNull(q.GetPreemptMode()))+fmt.Sprintf(" Priority=%d", q.GetPriority()),
	)
	for _, within := range record.GetWithin() {
		lines = append(lines, p.within(limits, within))
	}
	p.record(lines...)
}

// within is one account's, or one user's, part of a QOS.
func (p *limitPrinter) within(limits show.LimitSet, within *pb.UseWithin) string {
	use := within.GetUse()
	if within.GetAccount() != "" {
		return fmt.Sprintf("Account %s: MaxJobsPA=%s MaxSubmitJobsPA=%s MaxTRESPA=%s", format.Printable(within.GetAccount()),
			limits.Used(pb.LimitKind_LIMIT_KIND_MAX_JOBS_PER_ACCOUNT, use.GetJobs(), "N"), limits.Used(pb.LimitKind_LIMIT_KIND_MAX_SUBMIT_PER_ACCOUNT, use.GetSubmitted(), "N"),
			p.amounts(limits, pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_ACCOUNT, use.GetTres()))
	}
	return fmt.Sprintf("User %s(%d): MaxJobsPU=%s MaxSubmitJobsPU=%s MaxTRESPU=%s", format.Printable(within.GetUser()), within.GetUid(),
		limits.Used(pb.LimitKind_LIMIT_KIND_MAX_JOBS, use.GetJobs(), "N"), limits.Used(pb.LimitKind_LIMIT_KIND_MAX_SUBMIT, use.GetSubmitted(), "N"),
		p.amounts(limits, pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_USER, use.GetTres()))
}

// amounts is each TRES as NAME=LIMIT(USED), memory in MiB.
func (p *limitPrinter) amounts(limits show.LimitSet, kind pb.LimitKind, used []uint64) string {
	words := make([]string, 0, len(p.all.Tres))
	for i, name := range p.all.Tres {
		if i >= len(used) {
			break
		}
		limit, amount := "N", used[i]
		if value, set := limits.Find(kind, name); set {
			limit = show.LimitAmount(kind, name, value)
		}
		if name == show.MemoryTRES && !show.OverTime(kind) {
			amount >>= 20
		}
		words = append(words, fmt.Sprintf("%s=%s(%d)", format.Printable(name), limit, amount))
	}
	return strings.Join(words, ",")
}
