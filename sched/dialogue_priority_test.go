package sched

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// The dialogues' words for the order of jobs:
//
//	accounts    a tree, two blanks for each level: NAME [shares=N|parent] [usage=N] [priority=N], users as @NAME
//	priority    one weight or setting in a line: age=N assoc=N fairshare=N jobsize=N partition=N qos=N tres/NAME=N
//	            max-age=DURATION favor-small relative-to-time; "none" for no weights
//	jobs        … [-A ACCOUNT] [-u USER] [-q QOS] [-age DURATION] [-nice N] [-site N] [-L LICENSE[:N],…]
//	priorities  answers a table of weighted factors, as gprio does

func (d *dialogue) accounts(lines []string) error {
	d.snapshot.Associations = nil
	var path []int
	for _, line := range lines {
		words := strings.Fields(line)
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		o := options(words[1:])
		a := Association{Parent: -1, Account: words[0], Shares: uint32(number(strings.TrimPrefix(o["shares"], "parent"), 1)), ShareParent: o["shares"] == "parent",
			UsageRaw: int64(number(o["usage"], 0)), Priority: uint32(number(o["priority"], 0))}
		if depth > 0 {
			a.Parent = path[depth-1]
		}
		if name, user := strings.CutPrefix(words[0], "@"); user {
			a.User, a.Account = name, d.snapshot.Associations[a.Parent].Account
		}
		path = append(path[:depth], len(d.snapshot.Associations))
		d.snapshot.Associations = append(d.snapshot.Associations, a)
	}
	return nil
}

func (d *dialogue) priority(words []string) error {
	p := &d.snapshot.Priority
	weights := map[string]*uint32{
		"age": &p.WeightAge, "assoc": &p.WeightAssociation, "fairshare": &p.WeightFairShare, "jobsize": &p.WeightJobSize,
		"partition": &p.WeightPartition, "qos": &p.WeightQOS,
	}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		name, tres := strings.CutPrefix(key, "tres/")
		switch weight := weights[key]; {
		case weight != nil:
			*weight = uint32(number(value, 0))
		case tres:
			d.snapshot.TRES = append(d.snapshot.TRES, name)
			p.WeightTRES = append(p.WeightTRES, uint32(number(value, 0)))
			if license, is := strings.CutPrefix(name, "license/"); is {
				d.snapshot.Licenses = append(d.snapshot.Licenses, License{Name: license, Total: 10})
			}
		case key == "max-age":
			age, err := time.ParseDuration(value)
			if err != nil {
				return err
			}
			p.MaxAgeS = uint32(age / time.Second)
		case key == "favor-small":
			p.FavorSmall = true
		case key == "relative-to-time":
			p.SmallRelativeToTime = true
		case key == "none":
			*p = PriorityPolicy{MaxAgeS: p.MaxAgeS}
		default:
			return fmt.Errorf("no setting %q", key)
		}
	}
	return nil
}

// shareWords are a job's options that say the order of jobs.
type shareWords struct {
	account, user, qos, age, licenses *string
	nice, site                        *int
}

func (d *dialogue) shareOptions(set *flag.FlagSet) shareWords {
	return shareWords{
		account: set.String("A", "", ""), user: set.String("u", "", ""), qos: set.String("q", "", ""),
		age: set.String("age", "0s", ""), licenses: set.String("L", "", ""), nice: set.Int("nice", 0, ""), site: set.Int("site", 0, ""),
	}
}

func (w shareWords) fill(d *dialogue, job *Job) error {
	job.Nice, job.SiteFactor = int32(*w.nice), int32(*w.site)
	age, err := time.ParseDuration(*w.age)
	if err != nil {
		return err
	}
	job.AgeMS = age.Milliseconds()
	if *w.user != "" {
		job.Association = int32(slices.IndexFunc(d.snapshot.Associations, func(a Association) bool {
			return a.User == *w.user && (*w.account == "" || a.Account == *w.account)
		}))
		for _, c := range *w.user {
			job.UID = job.UID*31 + uint32(c)
		}
	}
	if job.QOS = -1; *w.qos != "" {
		job.QOS = int32(slices.IndexFunc(d.snapshot.QOS, func(q QOS) bool { return q.Name == *w.qos }))
	}
	for _, word := range list(*w.licenses) {
		name, n, _ := strings.Cut(word, ":")
		at := slices.IndexFunc(d.snapshot.Licenses, func(l License) bool { return l.Name == name })
		job.Licenses = append(job.Licenses, LicenseCount{License: at, Count: uint32(number(n, 1))})
	}
	return nil
}

func (d *dialogue) priorities() string {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 1, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "JOBID\tPARTITION\tPRIORITY\tSITE\tAGE\tASSOC\tFAIRSHARE\tJOBSIZE\tPARTITION\tQOS\tNICE\tTRES\t")
	w := &d.snapshot.Priority
	for f := range PriorityFactors(d.snapshot) {
		partition := ""
		if f.Partition >= 0 {
			partition = d.snapshot.Partitions[f.Partition].Name
		}
		var tres []string
		for i, factor := range f.TRES {
			tres = append(tres, d.snapshot.TRES[i]+"="+strconv.FormatUint(factor.Times(w.WeightTRES[i]).Round(), 10))
		}
		fmt.Fprintf(table, "%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t\n", d.snapshot.Waiting[f.Job].ID, partition, f.Priority, f.Site,
			f.Age.Times(w.WeightAge).Round(), f.Association.Times(w.WeightAssociation).Round(), f.FairShare.Times(w.WeightFairShare).Round(),
			f.JobSize.Times(w.WeightJobSize).Round(), f.Weighs.Times(w.WeightPartition).Round(), f.QOS.Times(w.WeightQOS).Round(), f.Nice, strings.Join(tres, ","))
	}
	table.Flush()
	return out.String()
}
