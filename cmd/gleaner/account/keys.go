package account

import (
	"fmt"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/similar"
)

// keyRow is a Key=value that there is.
type keyRow struct {
	names      []string // the first is the one in a Request
	where      Entity   // of what it may be a condition
	identifies Entity   // of what it says, when one is added, which one it is
	set        Entity   // in what it may be set
	list       bool     // += and -= are possible
	apply      func(change *pb.AccountChange, s Setting) error
}

// Names of keys that the plans look for.
const (
	keyAccount   = "Account"
	keyUser      = "User"
	keyPartition = "Partition"
	keyCluster   = "Cluster"
	keyName      = "Name"
	keyFormat    = "Format"
	keyParent    = "Parent"
	keyQOS       = "QosLevel"
	keyNodes     = "Nodes"
	keyStart     = "Start"
	keyEnd       = "End"
	keyState     = "State"
	keyReason    = "Reason"
	keyCondFlags = "CondFlags"
)

const (
	everything = Account | User | Association | QOS | TRES | Cluster | Coordinator | Event
	charged    = Account | User | Cluster // have an association
	limited    = charged | QOS
)

// keys are all there are, by the names of sacctmgr(1).
var keys = append([]keyRow{
	{names: []string{keyAccount, "Accounts", "Acct"}, where: Account | User | Association | Coordinator, identifies: Account | User | Coordinator},
	{names: []string{keyUser, "Users"}, where: Account | User | Association | Coordinator | Event, identifies: User | Coordinator},
	{names: []string{keyPartition, "Partitions"}, where: Account | User | Association, identifies: User},
	{names: []string{keyCluster, "Clusters"}, where: everything, identifies: everything},
	{names: []string{keyName, "Names"}, where: QOS | TRES, identifies: QOS},
	{names: []string{keyFormat}, where: everything},
	{names: []string{keyNodes, "Node", "NodeNames"}, where: Event},
	{names: []string{keyStart, "TimeStart"}, where: Event},
	{names: []string{keyEnd, "TimeEnd"}, where: Event},
	{names: []string{keyState, "States"}, where: Event},
	{names: []string{keyReason}, where: Event},
	{names: []string{keyCondFlags}, where: Event},
	{names: []string{keyParent}, where: Account | Association, set: Account, apply: setText(func(c *pb.AccountChange) **string { return &c.Parent }, strings.ToLower)},
	{names: []string{"Description"}, where: Account | QOS, set: Account | QOS, apply: setText(func(c *pb.AccountChange) **string { return &c.Description }, nil)},
	{names: []string{"Organization"}, where: Account, set: Account, apply: setText(func(c *pb.AccountChange) **string { return &c.Organization }, nil)},
	{names: []string{"AdminLevel"}, where: User, set: User, apply: setLevel},
	{names: []string{"DefaultAccount"}, where: User, set: User, apply: setText(func(c *pb.AccountChange) **string { return &c.DefaultAccount }, strings.ToLower)},
	{names: []string{"Fairshare", "Share", "Shares"}, set: charged, apply: setShares},
	{names: []string{"Priority"}, set: limited, apply: setPriority},
	{names: []string{keyQOS, "QOS"}, set: charged, list: true, apply: setList(func(c *pb.AccountChange) **pb.ListEdit { return &c.AllowedQos })},
	{names: []string{"DefaultQOS"}, set: charged, apply: setDefaultQOS},
	{names: []string{"RawUsage"}, set: limited, apply: resetUsage},
	{names: []string{"Preempt"}, set: QOS, list: true, apply: setList(func(c *pb.AccountChange) **pb.ListEdit { return &c.Preempts })},
	{names: []string{"PreemptMode"}, set: QOS, apply: setPreemptMode},
	{names: []string{"GraceTime"}, set: QOS, apply: setGraceTime},
	{names: []string{"PreemptExemptTime"}, set: QOS, apply: setExemptTime},
	{names: []string{"UsageFactor"}, set: QOS, apply: setUsageFactor},
	{names: []string{"Flags"}, set: QOS, list: true, apply: setFlags},
}, limitKeys()...)

// laterKeys are those of sacctmgr that are refused by name.
var laterKeys = map[string]string{
	"newname": "add the new user, then delete the old one", "defaultwckey": "leave out the wckey", "wckeys": "leave out the wckey", "wckey": "leave out the wckey",
	"grpjobsaccrue": "limit the jobs themselves with GrpJobs", "maxjobsaccrue": "limit the jobs themselves with MaxJobs",
	"maxjobsaccruepa": "limit the jobs themselves with MaxJobsPA", "maxjobsaccruepu": "limit the jobs themselves with MaxJobsPU",
	"maxjobsaccrueperaccount": "limit the jobs themselves with MaxJobsPerAccount", "maxjobsaccrueperuser": "limit the jobs themselves with MaxJobsPerUser",
	"limitfactor": "set the limits of the QOS themselves, with the flag OverPartQOS", "minpriothreshold": "leave it out", "usagethreshold": "leave it out",
	"classification": "leave it out", "features": "leave it out", "federation": "this cluster is the only one", "fedstate": "this cluster is the only one", "rpc": "leave it out",
	"id": "use the name", "ids": "use the name", "type": "all TRES are shown",
}

// nameKey is the key of a word without a key: the name.
func (r *Request) nameKey() string {
	switch r.Entity {
	case Account:
		return keyAccount
	case User, Coordinator:
		return keyUser
	case Association:
		return ""
	case Cluster:
		return keyCluster
	case Event:
		return keyNodes
	}
	return keyName
}

// findKey finds a key by its name or an unambiguous beginning of it.
func (r *Request) findKey(typed string, setting bool) (*keyRow, error) {
	lower := strings.ToLower(typed)
	if (lower == "name" || lower == "names") && r.nameKey() != "" {
		lower = strings.ToLower(r.nameKey())
	}
	var begin []*keyRow
	var names []string
	elsewhere := false // a condition that was written after set
	for i := range keys {
		row := &keys[i]
		fits := r.takes(row, setting)
		for _, name := range row.names {
			name = strings.ToLower(name)
			switch {
			case name == lower && fits:
				return row, nil
			case name == lower && r.takes(row, !setting):
				elsewhere = true
			case fits && lower != "" && strings.HasPrefix(name, lower) && (len(begin) == 0 || begin[len(begin)-1] != row):
				begin = append(begin, row)
			}
		}
		if fits {
			names = append(names, row.names[0])
		}
	}
	switch {
	case len(begin) == 1 && !elsewhere:
		return begin[0], nil
	case elsewhere && setting:
		return nil, fmt.Errorf("%s is a condition: put it before set, or after where", typed)
	case elsewhere:
		return nil, fmt.Errorf("%s is no condition: put it after set", typed)
	case len(begin) > 1:
		return nil, fmt.Errorf("%q may be %s or %s: type more of it", typed, begin[0].names[0], begin[1].names[0])
	}
	if remedy, known := laterKeys[lower]; known {
		return nil, fmt.Errorf("%s is not supported: %s", lower, remedy)
	}
	if of := entityOf(lower); of != 0 && of != r.Entity && setting {
		return nil, fmt.Errorf("%s is a value of %s, not of %s: set it with modify %s", typed, of, r.Entity, of)
	}
	if meant := similar.Nearest(typed, names); meant != "" {
		return nil, refuse("Unknown option: %.64q; did you mean %s?", typed, meant)
	}
	return nil, refuse("Unknown option: %.64q; there are %s", typed, strings.Join(names, ", "))
}

// entityOf is the entity of which something by this name can be set; 0 = none.
func entityOf(lower string) Entity {
	for i := range keys {
		for _, name := range keys[i].names {
			for _, row := range entities {
				if strings.ToLower(name) == lower && keys[i].set&row.entity != 0 {
					return row.entity
				}
			}
		}
	}
	return 0
}

// takes reports whether a key is allowed where it is.
func (r *Request) takes(row *keyRow, setting bool) bool {
	if r.Verb != Show && (row.names[0] == keyFormat || r.Entity == Account && (row.names[0] == keyUser || row.names[0] == keyPartition)) {
		return false // of tables only
	}
	if setting {
		return (row.set|row.identifies&map[bool]Entity{true: everything}[r.Verb == Add])&r.Entity != 0
	}
	return row.where&r.Entity != 0
}

// keyNamed finds a row by the name that is in a Request.
func keyNamed(name string) *keyRow {
	for i := range keys {
		if keys[i].names[0] == name {
			return &keys[i]
		}
	}
	return nil
}

// check refuses what no record could be meant by, or nothing is said of.
func (r *Request) check() error {
	switch {
	case r.Verb == Show:
		return nil
	case r.Verb == Modify && len(r.Set) == 0:
		return refuse("You didn't give me anything to set: type modify %s where … set NAME=VALUE", r.Entity)
	case r.Verb == Modify && r.Entity != Cluster && len(r.Where) == 0:
		return refuse("You didn't set any conditions with 'WHERE': type modify %s NAME set …; nothing is changed of all at once", r.Entity)
	case r.Verb == Delete && len(r.Where) == 0:
		return refuse("No conditions given to remove, not executing: type delete %s NAME", r.Entity)
	case r.Verb == Add && len(r.names(r.nameKey())) == 0:
		return refuse("Need name of %s to add: type add %s NAME", r.Entity, r.Entity)
	case r.Entity == Coordinator && (len(r.names(keyAccount)) == 0 || len(r.names(keyUser)) == 0):
		return fmt.Errorf("coordinators are users of accounts: type account=ACCOUNT names=USER")
	case r.Verb == Add && r.Entity == User && len(r.names(keyAccount)) == 0 && !r.sets("DefaultAccount"):
		return refuse("Need name of account to add user to: type account=ACCOUNT")
	}
	// What is set is read now, so that nothing is asked of a controller first.
	read := new(pb.AccountChange)
	for _, s := range r.Set {
		if err := keyNamed(s.Key).apply(read, s); err != nil {
			return err
		}
	}
	return nil
}

func (r *Request) sets(key string) bool {
	for _, s := range r.Set {
		if s.Key == key {
			return true
		}
	}
	return false
}

// names are the values of a condition, its lists taken apart. Accounts and QOS
// are in lower case, as in Slurm.
func (r *Request) names(key string) []string {
	var names []string
	for _, s := range r.Where {
		if s.Key == key {
			names = append(names, list(s.Value, key != keyUser && key != keyPartition && key != keyFormat)...)
		}
	}
	return names
}

// list takes a list apart.
func list(value string, lower bool) []string {
	var names []string
	for name := range strings.SplitSeq(value, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if lower {
			name = strings.ToLower(name)
		}
		names = append(names, name)
	}
	return names
}

// String is the entity's word.
func (e Entity) String() string {
	for _, row := range entities {
		if row.entity == e {
			return row.names[0]
		}
	}
	return "record"
}
