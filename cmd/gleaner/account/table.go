package account

import (
	"bufio"
	"io"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Style is how a table is written: sacctmgr's -n, -p and -P.
type Style struct {
	NoHeader  bool
	Parsable  bool // values end with |
	Parsable2 bool // a | between the values
}

// shown is a column that was chosen, with its width; less than 0 = to the left.
type shown struct {
	*column
	width int
}

// defaults are the columns of a table where format= does not choose them.
func (r *Request) defaults() string {
	const limits = "GrpJobs,GrpTRES,GrpSubmit,GrpWall,GrpTRESMins,MaxJobs,MaxTRES,MaxTRESPerNode,MaxSubmit,MaxWall,MaxTRESMins"
	with := func(option, first, second string) string {
		if r.Options[option] {
			return first + second
		}
		return first
	}
	switch r.Entity {
	case Account:
		return with("withassoc", with("withcoordinator", "Account,Descr,Org", ",Coord"), ",Cluster,ParentName,User,Share,Priority,"+limits+",QOS,DefaultQOS")
	case User:
		return with("withassoc", with("withcoordinator", "User,DefaultAccount,AdminLevel", ",Coord"),
			",Cluster,Account,Partition,Share,Priority,MaxJobs,MaxTRES,MaxTRESPerNode,MaxSubmit,MaxWall,MaxTRESMins,QOS,DefaultQOS")
	case QOS:
		return "Name,Priority,GraceTime,Preempt,PreemptExemptTime,PreemptMode,Flags,UsageFactor,GrpTRES,GrpTRESMins,GrpTRESRunMin,GrpJobs,GrpSubmit,GrpWall," +
			"MaxTRES,MaxTRESPerNode,MaxTRESMins,MaxWall,MaxTRESPU,MaxJobsPU,MaxSubmitPU,MaxTRESPA,MaxJobsPA,MaxSubmitPA,MinTRES"
	case TRES:
		return "Type,Name,ID"
	case Cluster:
		return "Cluster,Share,GrpJobs,GrpTRES,GrpSubmit,MaxJobs,MaxTRES,MaxSubmit,MaxWall,QOS,DefaultQOS"
	case Coordinator:
		return "Account,User"
	case Event:
		return "Cluster,NodeName,TimeStart,TimeEnd,State,Reason,User"
	}
	if r.Options["wolimits"] {
		return "Cluster,Account,User,Partition"
	}
	return "Cluster,Account,User,Partition,Share,Priority," + limits + ",QOS,DefaultQOS,GrpTRESRunMin"
}

// fields are the columns that an entity has.
func (r *Request) fields() []column {
	switch r.Entity {
	case Account:
		if r.Options["withassoc"] {
			return append(accountColumns[:len(accountColumns):len(accountColumns)], associationColumns...)
		}
		return accountColumns
	case User:
		if r.Options["withassoc"] {
			return append(userColumns[:len(userColumns):len(userColumns)], associationColumns...)
		}
		return userColumns
	case QOS:
		return qosColumns
	case TRES:
		return tresColumns
	case Cluster:
		return clusterColumns
	case Coordinator:
		return coordinatorColumns
	case Event:
		return eventColumns
	}
	return associationColumns
}

// MaxWidth bounds a column.
const MaxWidth = 4096

// chosen are the columns that format= names, or the default ones.
func (r *Request) chosen() ([]shown, error) {
	text := strings.Join(r.names(keyFormat), ",")
	if text == "" {
		text = r.defaults()
	}
	var columns []shown
	fields := r.fields()
	for word := range strings.SplitSeq(text, ",") {
		name, widthText, sized := strings.Cut(strings.TrimSpace(word), "%")
		field := findColumn(fields, name)
		if field == nil {
			var names []string
			for i := range fields {
				names = append(names, fields[i].names[0])
			}
			return nil, refuse("Unknown field '%.64s'; there are %s", name, strings.Join(names, ", "))
		}
		width := field.width
		if r.Options["tree"] && r.Entity == Association && field.names[0] == "Account" {
			width = -20 // the depth is seen on the left
		}
		if sized {
			var err error
			if width, err = strconv.Atoi(widthText); err != nil || width > MaxWidth || width < -MaxWidth {
				return nil, refuse("Bad width in format=%.64s: write %%NUMBER, at most %d, such as account%%20", word, MaxWidth)
			}
		}
		columns = append(columns, shown{field, width})
	}
	return columns, nil
}

// findColumn finds a field by a name or the beginning of one; as in sacctmgr
// the first one counts.
func findColumn(fields []column, typed string) *column {
	lower := strings.ToLower(typed)
	var begin *column
	for i := range fields {
		for _, name := range append(fields[i].names, fields[i].header) {
			name = strings.ToLower(name)
			if name == lower {
				return &fields[i]
			}
			if begin == nil && lower != "" && strings.HasPrefix(name, lower) {
				begin = &fields[i]
			}
		}
	}
	return begin
}

// Table is what a show request asks for.
type Table struct {
	columns []shown
	rows    []*row
}

// Table chooses the columns and the lines.
func (r *Request) Table(l *Listing) (*Table, error) {
	columns, err := r.chosen()
	if err != nil {
		return nil, err
	}
	return &Table{columns, r.rows(l)}, nil
}

// Write writes the table; an error is the writer's.
func (t *Table) Write(style Style, to io.Writer) error {
	out := bufio.NewWriterSize(to, 64<<10)
	if !style.NoHeader {
		headers, dashes := make([]string, len(t.columns)), make([]string, len(t.columns))
		for i, c := range t.columns {
			headers[i] = c.header
			dashes[i] = strings.Repeat("-", max(c.width, -c.width))
		}
		writeLine(out, t.columns, headers, style)
		if !style.Parsable && !style.Parsable2 {
			writeLine(out, t.columns, dashes, style)
		}
	}
	values := make([]string, len(t.columns))
	for _, line := range t.rows {
		for i, c := range t.columns {
			values[i] = format.Printable(c.value(line))
		}
		writeLine(out, t.columns, values, style)
	}
	return out.Flush()
}

func writeLine(out *bufio.Writer, columns []shown, values []string, style Style) {
	for i, value := range values {
		if style.Parsable || style.Parsable2 {
			_, _ = out.WriteString(value) // a bufio.Writer keeps its error for Flush
			if style.Parsable || i+1 < len(values) {
				_ = out.WriteByte('|')
			}
			continue
		}
		_, _ = out.WriteString(fit(value, columns[i].width) + " ")
	}
	_ = out.WriteByte('\n')
}

// fit fills a value to its width, or cuts it there with a + as the last sign.
func fit(value string, width int) string {
	if width == 0 {
		return value
	}
	return string(format.AppendCell(nil, value, width))
}

// rows are the lines of a table.
func (r *Request) rows(l *Listing) []*row {
	var rows []*row
	add := func(one row) {
		one.listing, one.tree, one.ownLimits = l, r.Options["tree"], r.Options["woplimits"] || r.Options["wopinfo"]
		rows = append(rows, &one)
	}
	switch r.Entity {
	case Account:
		for _, account := range l.Accounts {
			if r.meansAccount(account) {
				r.withAssociations(l.look().inAccount[account.GetName()], row{account: account}, add)
			}
		}
	case User:
		for _, user := range l.Users {
			if r.meansUser(user) {
				r.withAssociations(l.look().ofUser[user.GetName()], row{user: user}, add)
			}
		}
	case QOS:
		for _, qos := range l.QOS {
			if r.meansQOS(qos) {
				add(row{qos: qos})
			}
		}
	case TRES:
		for _, one := range numberedTRES(l.TRES) {
			if name := one.tres; r.among(keyName, name) {
				add(one)
			}
		}
	case Cluster:
		add(row{association: l.association(rootAccount, "", "")})
	case Coordinator:
		for _, account := range l.Accounts {
			for _, name := range account.GetCoordinators() {
				if r.among(keyAccount, account.GetName()) && r.among(keyUser, name) {
					add(row{account: account, user: &pb.AccountUser{Name: name}})
				}
			}
		}
	case Event:
		for _, event := range l.Events {
			if r.meansEvent(event) {
				add(row{event: event})
			}
		}
	default:
		meant := r.withBelow(l)
		for _, a := range l.Associations {
			if meant(a.GetAccount()) && r.among(keyUser, a.GetUser()) && r.among(keyPartition, a.GetPartition()) && r.among(keyParent, a.GetParentAccount()) &&
				(!r.Options["onlydefaults"] || l.onlyDefault(a)) {
				add(row{association: a})
			}
		}
	}
	return rows
}

// withAssociations adds one line, or with withassoc one for each association.
func (r *Request) withAssociations(all []*pb.Association, one row, add func(row)) {
	if !r.Options["withassoc"] {
		add(one)
		return
	}
	found := false
	for _, a := range all {
		if r.among(keyUser, a.GetUser()) && r.among(keyAccount, a.GetAccount()) && r.among(keyPartition, a.GetPartition()) {
			found = true
			one.association = a
			add(one)
		}
	}
	if !found {
		add(one)
	}
}

// numberedTRES are the TRES with Slurm's numbers for those that it has, and
// from 1001 on for the others.
func numberedTRES(names []string) []row {
	numbers := map[string]int{"cpu": 1, "mem": 2, "node": 4, "billing": 5}
	var rows []row
	next := 1001
	for _, name := range sortedNames(names) {
		id, known := numbers[name]
		if !known {
			id = next
			next++
		}
		rows = append(rows, row{tres: name, id: id})
	}
	return rows
}
