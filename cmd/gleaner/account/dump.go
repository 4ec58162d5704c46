package account

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Dump writes all there is as a flat file in the form of sacctmgr(1), "FLAT
// FILE DUMP AND LOAD": a line for the cluster, then for each account the
// accounts and users below it. QOS, which Slurm's files do not have, come
// first, on lines that begin with QOS.
func (l *Listing) Dump(to io.Writer) error {
	out := bufio.NewWriterSize(to, 64<<10)
	_, _ = fmt.Fprintf(out, "# Accounts, users and QOS of cluster %s, for gacctmgr load. sacctmgr(1) has the\n# form; Slurm does not know the lines of QOS.\n", l.Cluster) // a bufio.Writer keeps its error for Flush
	for _, qos := range l.QOS {
		writeRecord(out, "QOS", qos.GetName(), qosValues(qos))
	}
	root := l.association(rootAccount, "", "")
	writeRecord(out, "Cluster", l.Cluster, associationValues(root))
	described := map[string]bool{} // users, on their first line
	for _, above := range l.Associations {
		if above.GetUser() != "" {
			continue
		}
		begun := false
		begin := func() {
			if !begun {
				writeRecord(out, "Parent", above.GetAccount(), nil)
			}
			begun = true
		}
		for _, member := range l.look().inAccount[above.GetAccount()] {
			if user := l.user(member.GetUser()); user != nil {
				begin()
				writeRecord(out, "User", member.GetUser(), l.userValues(user, member, !described[user.GetName()]))
				described[user.GetName()] = true
			}
		}
		for _, child := range l.look().below[above.GetAccount()] {
			begin()
			account := l.account(child.GetAccount())
			values := []value{{"Description", account.GetDescription()}, {"Organization", account.GetOrganization()}}
			writeRecord(out, "Account", child.GetAccount(), append(values, associationValues(child)...))
		}
	}
	return out.Flush()
}

type value struct{ key, text string }

// writeRecord writes one line: Title - name:Key=Value:…
func writeRecord(out *bufio.Writer, title, name string, values []value) {
	_, _ = out.WriteString(title + " - " + quoteField(name))
	for _, v := range values {
		_, _ = out.WriteString(":" + v.key + "=" + quoteField(v.text))
	}
	_ = out.WriteByte('\n')
}

// quoteField puts quotes around what would not be read as one word otherwise.
func quoteField(text string) string {
	if text != "" && !strings.ContainsAny(text, " :'\"#") {
		return text
	}
	if strings.Contains(text, "'") {
		return `"` + strings.ReplaceAll(text, `"`, "'") + `"`
	}
	return "'" + text + "'"
}

func associationValues(a *pb.Association) []value {
	values := []value{{"Fairshare", shareText(a)}}
	if a.GetPriority() != 0 {
		values = append(values, value{"Priority", unlessZero(a.GetPriority())})
	}
	if len(a.GetQos()) > 0 {
		values = append(values, value{"QOS", strings.Join(a.GetQos(), ",")})
	}
	if a.GetDefaultQos() != "" {
		values = append(values, value{"DefaultQOS", a.GetDefaultQos()})
	}
	return append(values, limitValues(a.GetLimits(), false)...)
}

// limitValues writes limits so that they can be read again: minutes as
// numbers, memory in MB where it comes out even.
func limitValues(set []*pb.Limit, ofQOS bool) []value {
	var values []value
	for i := range limits {
		limit := &limits[i]
		name := limit.ofQOS[0]
		if !ofQOS && len(limit.names) > 0 {
			name = limit.names[0]
		}
		these := limitsOf(set, limit.kind)
		switch {
		case len(these) == 0:
		case limit.unit == ofTRES:
			values = append(values, value{name, limitText(limit, these)})
		default:
			values = append(values, value{name, strconv.FormatUint(these[0].GetValue(), 10)})
		}
	}
	return values
}

// userValues are those of an association, and on the user's first line those
// of the user.
func (l *Listing) userValues(user *pb.AccountUser, a *pb.Association, first bool) []value {
	var values []value
	if a.GetPartition() != "" {
		values = append(values, value{"Partition", a.GetPartition()})
	}
	if first {
		values = append(values, value{"DefaultAccount", user.GetDefaultAccount()})
		if user.GetLevel() != pb.AdminLevel_ADMIN_LEVEL_NONE {
			values = append(values, value{"AdminLevel", LevelText(user.GetLevel())})
		}
		if accounts := l.coordinates(user.GetName()); len(accounts) > 0 {
			values = append(values, value{"Coordinator", strings.Join(accounts, ",")})
		}
	}
	return append(values, associationValues(a)...)
}

func qosValues(q *pb.Qos) []value {
	values := []value{{"Description", q.GetDescription()}, {"Priority", strconv.FormatUint(uint64(q.GetPriority()), 10)}}
	if len(q.GetPreempts()) > 0 {
		values = append(values, value{"Preempt", strings.Join(q.GetPreempts(), ",")})
	}
	if q.GetPreemptMode() != "" {
		values = append(values, value{"PreemptMode", q.GetPreemptMode()})
	}
	if q.GetGraceTimeS() != 0 {
		values = append(values, value{"GraceTime", unlessZero(q.GetGraceTimeS())})
	}
	if q.ExemptTimeS != nil {
		values = append(values, value{"PreemptExemptTime", clock(uint64(q.GetExemptTimeS()))})
	}
	if q.UsageFactorPpm != nil {
		values = append(values, value{"UsageFactor", factorText(&row{qos: q})})
	}
	if len(q.GetFlags()) > 0 {
		values = append(values, value{"Flags", strings.Join(q.GetFlags(), ",")})
	}
	return append(values, limitValues(q.GetLimits(), true)...)
}
