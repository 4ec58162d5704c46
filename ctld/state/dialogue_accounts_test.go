package state

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// changeAccounts reads "account add physics parent=root fairshare=3"; several
// changes of one command are parted by semicolons.
func (d *dialogue) changeAccounts(line string) Command {
	var c ChangeAccounts
	for _, piece := range strings.Split(line, ";") {
		what, a := parseArguments(strings.TrimSpace(piece))
		c.Changes = append(c.Changes, d.accountChange(what, a))
	}
	return c
}

func (d *dialogue) accountChange(what string, a arguments) AccountChange {
	c := AccountChange{Action: map[string]ChangeAction{"add": AddRecord, "modify": ModifyRecord, "delete": DeleteRecord}[a.words[0]]}
	name := strings.Join(a.words[1:], " ")
	switch what {
	case "account":
		c.Record, c.Account = AccountRecord, name
	case "qos":
		c.Record, c.QOS = QOSRecord, name
	case "user":
		c.Record, c.User = UserRecord, name
		if account, given := a.values["account"]; given {
			c.Record, c.Account, c.Partition = AssociationRecord, account, a.values["partition"]
		}
	}
	for key, value := range a.values {
		d.setting(&c, key, value)
	}
	return c
}

// setting is one word of the dialogues; gacctmgr knows all of Slurm's.
func (d *dialogue) setting(c *AccountChange, key, value string) {
	key, operation := key, SetList
	if trimmed, found := strings.CutSuffix(key, "+"); found {
		key, operation = trimmed, AddToList
	} else if trimmed, found := strings.CutSuffix(key, "-"); found {
		key, operation = trimmed, RemoveFromList
	}
	list := &ListEdit{Operation: operation, Names: strings.Split(value, ",")}
	if value == "" {
		list.Names = nil
	}
	number, _ := strconv.ParseInt(value, 10, 64)
	switch key {
	case "account", "partition":
	case "parent":
		c.Parent = &value
	case "description":
		c.Description = &value
	case "coordinators":
		c.Coordinators = list
	case "defaultaccount":
		c.DefaultAccount = &value
	case "adminlevel":
		c.Level = ptr(AdminLevel(number))
	case "fairshare":
		c.ShareParent = value == "parent"
		if !c.ShareParent {
			c.Shares = ptr(uint32(number))
		}
	case "rawusage":
		c.ResetUsage = true
	case "priority":
		c.Priority = ptr(uint32(number))
	case "qos":
		c.AllowedQOS = list
	case "defaultqos":
		c.DefaultQOS = &value
	case "preempt":
		c.Preempts = list
	case "preemptmode":
		c.PreemptMode = ptr(preemptModeNamed(value))
	case "gracetime":
		c.GraceTimeS = ptr(uint32(number))
	case "usagefactor":
		c.UsageFactorPPM = ptr(number)
	case "flags":
		c.FlagsOn = map[string]QOSFlags{"DenyOnLimit": FlagDenyOnLimit, "NoDecay": FlagNoDecay}[value]
	default:
		c.Limits = append(c.Limits, d.limits(key, value)...)
	}
}

func (d *dialogue) limits(key, value string) []LimitChange {
	kind := LimitKind(1)
	for kind <= lastLimit && kind.row().name != key {
		kind++
	}
	if kind > lastLimit {
		d.t.Fatalf("no such setting in a dialogue: %s", key)
	}
	var changes []LimitChange
	for _, piece := range strings.Split(value, ",") {
		change := LimitChange{Limit: kind}
		if kind.row().amounts != nil {
			change.TRES, piece, _ = strings.Cut(piece, "=")
		}
		number, _ := strconv.ParseInt(piece, 10, 64)
		change.Value, change.Clear = uint64(max(number, 0)), number < 0
		changes = append(changes, change)
	}
	return changes
}

// accounts prints the tree, the users and the QOS.
func (d *dialogue) accounts() string {
	v := d.state.View()
	var out strings.Builder
	for depth, association := range v.AccountTree() {
		name := association.Account
		if association.User != "" {
			name = "@" + association.User
		}
		fmt.Fprintf(&out, "%s%s", strings.Repeat("  ", depth), name)
		if association.Partition != "" {
			fmt.Fprintf(&out, " partition=%s", association.Partition)
		}
		fmt.Fprintf(&out, " #%d share=%s", association.ID, map[bool]string{true: "parent", false: fmt.Sprint(association.Shares)}[association.ShareParent])
		if len(association.QOS) > 0 {
			fmt.Fprintf(&out, " qos=%s", strings.Join(association.QOS, ","))
		}
		if association.DefaultQOS != "" {
			fmt.Fprintf(&out, " default=%s", association.DefaultQOS)
		}
		out.WriteString(describeLimits(&association.Limits) + "\n")
	}
	for user := range v.Users() {
		fmt.Fprintf(&out, "user %s default=%s level=%d\n", user.Name, user.DefaultAccount, user.Level)
	}
	for qos := range v.AllQOS() {
		fmt.Fprintf(&out, "qos %s priority=%d preempts=%v flags=%d%s\n", qos.Name, qos.Priority, qos.Preempts, qos.Flags(), describeLimits(&qos.Limits))
	}
	for account := range v.Accounts() {
		if len(account.Coordinators) > 0 {
			fmt.Fprintf(&out, "coordinators of %s: %s\n", account.Name, strings.Join(account.Coordinators, ","))
		}
	}
	return out.String()
}

func describeLimits(limits *Limits) string {
	var out strings.Builder
	for kind := LimitKind(1); kind <= lastLimit; kind++ {
		row := kind.row()
		if row.amounts == nil {
			if value := *row.count(limits); value != nil {
				fmt.Fprintf(&out, " %s=%d", row.name, *value)
			}
			continue
		}
		for _, amount := range *row.amounts(limits) {
			fmt.Fprintf(&out, " %s=%s=%d", row.name, amount.Name, amount.Count)
		}
	}
	return out.String()
}

// schedAccounts prints what the scheduler sees of accounts and who is charged.
func (d *dialogue) schedAccounts() string {
	snapshot := d.state.View().SchedSnapshot(d.nowMS)
	var out strings.Builder
	fmt.Fprintf(&out, "tres %s\n", strings.Join(snapshot.TRES, " "))
	for i, a := range snapshot.Associations {
		fmt.Fprintf(&out, "%d under %d: %s %s%s", i, a.Parent, a.Account, a.User, a.Partition)
		if a.Limits.GroupTRES != nil {
			fmt.Fprintf(&out, " GrpTRES %v", a.Limits.GroupTRES)
		}
		out.WriteString("\n")
	}
	for i, q := range snapshot.QOS {
		fmt.Fprintf(&out, "qos %d: %s priority %d preempts %v\n", i, q.Name, q.Priority, q.Preempts)
	}
	for _, job := range snapshot.Waiting {
		fmt.Fprintf(&out, "job %d charged to %d, qos %d, uid %d\n", job.ID, job.Association, job.QOS, job.UID)
	}
	for _, job := range snapshot.Running {
		fmt.Fprintf(&out, "running job %d charged to %d, qos %d, uid %d\n", job.ID, job.Association, job.QOS, job.UID)
	}
	return out.String()
}

// enforced reads "enforce associations limits qos licenses=x:3,y".
func (d *dialogue) enforced(a arguments) Command {
	site := *d.state.View().Policy()
	site.Accounting = policy.Accounting{EnforceAssociations: a.is("associations"), EnforceLimits: a.is("limits"), EnforceQOS: a.is("qos")}
	licenses, err := licensesFromText(a.values["licenses"])
	if err != nil {
		d.t.Fatal(err)
	}
	site.Licenses = licenses
	site.Partitions = append([]policy.Partition(nil), site.Partitions...)
	for i := range site.Partitions {
		p := &site.Partitions[i]
		p.QOS = a.values["partition-qos"]
		if list := a.values[p.Name+".accounts"]; list != "" {
			p.AllowAccounts = strings.Split(list, ",")
		}
		if list := a.values[p.Name+".qos"]; list != "" {
			p.AllowQOS = strings.Split(list, ",")
		}
	}
	return ApplyPolicy{Policy: site}
}

// charges lists who pays for each job.
func (d *dialogue) charges() string {
	v := d.state.View()
	var out strings.Builder
	for job := range v.Jobs(0) {
		message := v.JobMessage(job, Overlay{}, JobDetail{})
		fmt.Fprintf(&out, "%d %s account=%s qos=%s association=%d\n", job.ID, spec.StateCode(message.State), message.Spec.Account, message.Spec.Qos, job.Association)
	}
	return out.String()
}
