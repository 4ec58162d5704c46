package explain

import (
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/sched"
)

// limit is what was reached, to be put into words.
type limit struct{ *sched.LimitReached }

// LimitSentence is what was reached: whose limit, how much it is, how much of
// it is used, and by whom. s is the snapshot that it was found in.
func LimitSentence(reached *sched.LimitReached, s sched.Snapshot) string {
	r := limit{reached}
	value := func(n int64) string { return r.amount(s, n) }
	set := fmt.Sprintf("(%s=%s)", setting(reached, s), r.setTo(s))
	switch r.Kind {
	case sched.LimitLicenses:
		return r.licenses(s)
	case sched.LimitGroupJobs, sched.LimitMaxJobs, sched.LimitMaxJobsPerAccount:
		return fmt.Sprintf("%s may run %s at once %s and runs %d%s", r.counted(s), count(uint64(r.Limit), "job"), r.from(s, set), r.Used, r.holders(s))
	case sched.LimitGroupTRES, sched.LimitMaxTRESPerUser, sched.LimitMaxTRESPerAccount:
		return fmt.Sprintf("%s may have %s at once %s and has %s%s; this job needs %s", r.counted(s), value(r.Limit), set, r.number(s, r.Used), r.holders(s), r.number(s, r.Need))
	case sched.LimitGroupTRESMinutes:
		return r.minutesUsed(s, set)
	case sched.LimitGroupTRESRunMinutes:
		return fmt.Sprintf("what runs in %s may have %s left together %s and has %d%s; this job would add %s", r.counted(s), value(r.Limit), set, r.Used, r.holders(s), r.added(r.Need))
	case sched.LimitGroupWall:
		return fmt.Sprintf("the jobs of %s may run %s in all %s and have run %d", r.counted(s), value(r.Limit), set, r.Used)
	case sched.LimitMaxWall:
		if r.Limit == 0 {
			return fmt.Sprintf("no job of %s may run for any time %s", r.counted(s), r.from(s, set))
		}
		return fmt.Sprintf("asks for %s, but a job of %s may ask for %s at most %s: ask for less with --time", minutes(uint64(r.Need)*60), r.counted(s), value(r.Limit), r.from(s, set))
	case sched.LimitMaxTRESPerJob:
		return fmt.Sprintf("needs %s, but a job of %s may have %s at most %s", value(r.Need), r.counted(s), r.number(s, r.Limit), r.from(s, set))
	case sched.LimitMaxTRESPerNode:
		return fmt.Sprintf("needs %s on one node, but a job of %s may have %s at most %s", value(r.Need), r.counted(s), r.number(s, r.Limit), r.from(s, set))
	case sched.LimitMaxTRESMinutesPerJob:
		if r.Limit == 0 {
			return fmt.Sprintf("could use %s, but no job of %s may use any %s", r.could(s), r.counted(s), r.from(s, set))
		}
		return fmt.Sprintf("could use %s, but a job of %s may use %d at most %s: ask for less with --time", r.could(s), r.counted(s), r.Limit, r.from(s, set))
	case sched.LimitMinTRESPerJob:
		return fmt.Sprintf("needs %s, but a job of %s must have %s at least %s", value(r.Need), r.counted(s), r.number(s, r.Limit), set)
	}
	return fmt.Sprintf("%s may have %s waiting and running %s and has %d; this would be %d more", r.counted(s), count(uint64(r.Limit), "job"), r.from(s, set), r.Used, r.Need)
}

func (r limit) minutesUsed(s sched.Snapshot, setting string) string {
	if s.Accounting.Safe {
		return fmt.Sprintf("%s may use %s in all %s and has used %d, with what its running jobs may still use; this job could use %s", r.counted(s), r.amount(s, r.Limit), setting, r.Used, r.added(r.Need))
	}
	return fmt.Sprintf("%s may use %s in all %s and has used %d", r.counted(s), r.amount(s, r.Limit), setting, r.Used)
}

func (r limit) licenses(s sched.Snapshot) string {
	name := s.Licenses[r.TRES].Name
	free := max(r.Limit-r.Used, 0)
	return fmt.Sprintf("needs %s of %s; %d of %d %s free%s", count(uint64(r.Need), "license"), name, free, r.Limit, isAre(free), r.holders(s))
}

// counted is whose jobs count together.
func (r limit) counted(s sched.Snapshot) string {
	switch r.Kind {
	case sched.LimitMaxJobs, sched.LimitMaxTRESPerUser, sched.LimitMaxSubmit:
		if r.QOS < 0 {
			return r.association(s, r.Account)
		}
		return "user " + r.user(s) + " in QOS " + s.QOS[r.QOS].Name
	case sched.LimitMaxJobsPerAccount, sched.LimitMaxTRESPerAccount, sched.LimitMaxSubmitPerAccount:
		return "account " + s.Associations[r.Account].Account + " in QOS " + s.QOS[r.QOS].Name
	}
	if r.QOS >= 0 {
		return "QOS " + s.QOS[r.QOS].Name
	}
	return r.association(s, r.Association)
}

func (r limit) association(s sched.Snapshot, at int32) string {
	a := &s.Associations[at]
	switch {
	case a.User != "" && a.Partition != "":
		return "user " + a.User + " in account " + a.Account + " and partition " + a.Partition
	case a.User != "":
		return "user " + a.User + " in account " + a.Account
	}
	return "account " + a.Account
}

func (r limit) user(s sched.Snapshot) string { return userOf(s, r.Account, r.User) }

func userOf(s sched.Snapshot, association int32, uid uint32) string {
	if association >= 0 && s.Associations[association].User != "" {
		return s.Associations[association].User
	}
	return fmt.Sprint(uid)
}

// from adds to a setting where it was set, if that is above the user it binds.
func (r limit) from(s sched.Snapshot, setting string) string {
	if r.QOS >= 0 || r.Association < 0 {
		return setting
	}
	if set := r.association(s, r.Association); set != r.counted(s) {
		return strings.TrimSuffix(setting, ")") + " of " + set + ")"
	}
	return setting
}

// holders names jobs that use what is used: ": job 12 of alice has 2, …".
func (r limit) holders(s sched.Snapshot) string {
	if len(r.Holders) == 0 {
		return ""
	}
	words := make([]string, 0, len(r.Holders)+1)
	for _, h := range r.Holders {
		word := fmt.Sprintf("job %d", h.Job)
		if r.Kind != sched.LimitLicenses {
			word += " of " + userOf(s, h.Association, h.UID)
		}
		if r.TRES >= 0 && r.Kind != sched.LimitGroupTRESRunMinutes {
			word += " has " + r.number(s, h.Amount)
		}
		words = append(words, word)
	}
	if r.Others > 0 {
		words = append(words, "and "+count(uint64(r.Others), "more job"))
	}
	return ": " + strings.Join(words, ", ")
}

// amount is a number with what it counts.
func (r limit) amount(s sched.Snapshot, n int64) string {
	switch r.Kind {
	case sched.LimitGroupWall, sched.LimitMaxWall:
		return count(uint64(n), "minute")
	case sched.LimitGroupTRESMinutes, sched.LimitGroupTRESRunMinutes, sched.LimitMaxTRESMinutesPerJob:
		return count(uint64(n), tresNoun(s.TRES[r.TRES])+" minute")
	}
	name := s.TRES[r.TRES]
	switch {
	case name == sched.TRESMemory:
		return bytes(uint64(n)) + " of memory"
	case name == sched.TRESBilling:
		return fmt.Sprintf("%d of billing", n)
	case strings.HasPrefix(name, sched.TRESLicense):
		return count(uint64(n), "license") + " of " + strings.TrimPrefix(name, sched.TRESLicense)
	case strings.HasPrefix(name, sched.TRESModel):
		return count(uint64(n), "GPU") + " of model " + strings.TrimPrefix(name, sched.TRESModel)
	}
	return count(uint64(n), tresNoun(name))
}

// number is a number without what it counts.
func (r limit) number(s sched.Snapshot, n int64) string {
	if r.TRES >= 0 && r.Kind != sched.LimitLicenses && s.TRES[r.TRES] == sched.TRESMemory {
		return bytes(uint64(n))
	}
	return fmt.Sprint(n)
}

// setTo is the limit as sacctmgr writes it: memory in MiB.
func (r limit) setTo(s sched.Snapshot) string {
	if r.TRES >= 0 && r.Kind != sched.LimitLicenses && s.TRES[r.TRES] == sched.TRESMemory && !r.Kind.OverTime() {
		return fmt.Sprintf("%dM", r.Limit>>20)
	}
	return fmt.Sprint(r.Limit)
}

// endless is what a job without a time limit counts for, at least.
const endless = int64(sched.Unlimited) / 60

// added is what a job would add over time.
func (r limit) added(n int64) string {
	if n >= endless {
		return "no end of them, because it has no time limit: give it one with --time"
	}
	return fmt.Sprint(n)
}

func (r limit) could(s sched.Snapshot) string {
	if r.Need >= endless {
		return "no end of " + tresNoun(s.TRES[r.TRES]) + " minutes, because it has no time limit"
	}
	return r.amount(s, r.Need)
}

// tresNoun is what one of a TRES is called.
func tresNoun(name string) string {
	switch name {
	case sched.TRESCPU:
		return "CPU"
	case sched.TRESGPU:
		return "GPU"
	case sched.TRESNode:
		return "node"
	case sched.TRESMemory:
		return "MiB"
	}
	return name
}

func isAre(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
