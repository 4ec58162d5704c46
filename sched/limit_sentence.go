package sched

import (
	"fmt"
	"strings"
)

// Sentence is what was reached: whose limit, how much it is, how much of it is
// used, and by whom. s is the snapshot that it was found in.
func (r *LimitReached) Sentence(s Snapshot) string {
	value := func(n int64) string { return r.amount(s, n) }
	setting := fmt.Sprintf("(%s=%s)", r.Setting(s), r.setTo(s))
	switch r.Kind {
	case LimitLicenses:
		return r.licenses(s)
	case LimitGroupJobs, LimitMaxJobs, LimitMaxJobsPerAccount:
		return fmt.Sprintf("%s may run %s at once %s and runs %d%s", r.counted(s), count(uint64(r.Limit), "job"), r.from(s, setting), r.Used, r.holders(s))
	case LimitGroupTRES, LimitMaxTRESPerUser, LimitMaxTRESPerAccount:
		return fmt.Sprintf("%s may have %s at once %s and has %s%s; this job needs %s", r.counted(s), value(r.Limit), setting, r.number(s, r.Used), r.holders(s), r.number(s, r.Need))
	case LimitGroupTRESMinutes:
		return r.minutesUsed(s, setting)
	case LimitGroupTRESRunMinutes:
		return fmt.Sprintf("what runs in %s may have %s left together %s and has %d%s; this job would add %s", r.counted(s), value(r.Limit), setting, r.Used, r.holders(s), r.added(r.Need))
	case LimitGroupWall:
		return fmt.Sprintf("the jobs of %s may run %s in all %s and have run %d", r.counted(s), value(r.Limit), setting, r.Used)
	case LimitMaxWall:
		return fmt.Sprintf("asks for %s, but a job of %s may ask for %s at most %s: ask for less with --time", minutes(uint64(r.Need)*60), r.counted(s), value(r.Limit), r.from(s, setting))
	case LimitMaxTRESPerJob:
		return fmt.Sprintf("needs %s, but a job of %s may have %s at most %s", value(r.Need), r.counted(s), r.number(s, r.Limit), r.from(s, setting))
	case LimitMaxTRESPerNode:
		return fmt.Sprintf("needs %s on one node, but a job of %s may have %s at most %s", value(r.Need), r.counted(s), r.number(s, r.Limit), r.from(s, setting))
	case LimitMaxTRESMinutesPerJob:
		return fmt.Sprintf("could use %s, but a job of %s may use %d at most %s: ask for less with --time", r.could(s), r.counted(s), r.Limit, r.from(s, setting))
	case LimitMinTRESPerJob:
		return fmt.Sprintf("needs %s, but a job of %s must have %s at least %s", value(r.Need), r.counted(s), r.number(s, r.Limit), setting)
	}
	return fmt.Sprintf("%s may have %s waiting and running %s and has %d; this would be %d more", r.counted(s), count(uint64(r.Limit), "job"), r.from(s, setting), r.Used, r.Need)
}

func (r *LimitReached) minutesUsed(s Snapshot, setting string) string {
	if s.Accounting.Safe {
		return fmt.Sprintf("%s may use %s in all %s and has used %d, with what its running jobs may still use; this job could use %s", r.counted(s), r.amount(s, r.Limit), setting, r.Used, r.added(r.Need))
	}
	return fmt.Sprintf("%s may use %s in all %s and has used %d", r.counted(s), r.amount(s, r.Limit), setting, r.Used)
}

func (r *LimitReached) licenses(s Snapshot) string {
	name := s.Licenses[r.TRES].Name
	free := max(r.Limit-r.Used, 0)
	return fmt.Sprintf("needs %s of %s; %d of %d %s free%s", count(uint64(r.Need), "license"), name, free, r.Limit, isAre(free), r.holders(s))
}

// counted is whose jobs count together.
func (r *LimitReached) counted(s Snapshot) string {
	switch r.Kind {
	case LimitMaxJobs, LimitMaxTRESPerUser, LimitMaxSubmit:
		if r.QOS < 0 {
			return r.association(s, r.Account)
		}
		return "user " + r.user(s) + " in QOS " + s.QOS[r.QOS].Name
	case LimitMaxJobsPerAccount, LimitMaxTRESPerAccount, LimitMaxSubmitPerAccount:
		return "account " + s.Associations[r.Account].Account + " in QOS " + s.QOS[r.QOS].Name
	}
	if r.QOS >= 0 {
		return "QOS " + s.QOS[r.QOS].Name
	}
	return r.association(s, r.Association)
}

func (r *LimitReached) association(s Snapshot, at int32) string {
	a := &s.Associations[at]
	switch {
	case a.User != "" && a.Partition != "":
		return "user " + a.User + " in account " + a.Account + " and partition " + a.Partition
	case a.User != "":
		return "user " + a.User + " in account " + a.Account
	}
	return "account " + a.Account
}

func (r *LimitReached) user(s Snapshot) string { return userOf(s, r.Account, r.User) }

func userOf(s Snapshot, association int32, uid uint32) string {
	if association >= 0 && s.Associations[association].User != "" {
		return s.Associations[association].User
	}
	return fmt.Sprint(uid)
}

// from adds to a setting where it stands, if that is above whom it binds.
func (r *LimitReached) from(s Snapshot, setting string) string {
	if r.QOS >= 0 || r.Association < 0 {
		return setting
	}
	if set := r.association(s, r.Association); set != r.counted(s) {
		return strings.TrimSuffix(setting, ")") + " of " + set + ")"
	}
	return setting
}

// holders names jobs that use what is used: ": job 12 of alice has 2, …".
func (r *LimitReached) holders(s Snapshot) string {
	if len(r.Holders) == 0 {
		return ""
	}
	words := make([]string, 0, len(r.Holders)+1)
	for _, h := range r.Holders {
		word := fmt.Sprintf("job %d", h.Job)
		if r.Kind != LimitLicenses {
			word += " of " + userOf(s, h.Association, h.UID)
		}
		if r.TRES >= 0 && r.Kind != LimitGroupTRESRunMinutes {
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
func (r *LimitReached) amount(s Snapshot, n int64) string {
	switch r.Kind {
	case LimitGroupWall, LimitMaxWall:
		return count(uint64(n), "minute")
	case LimitGroupTRESMinutes, LimitGroupTRESRunMinutes, LimitMaxTRESMinutesPerJob:
		return count(uint64(n), tresNoun(s.TRES[r.TRES])+" minute")
	}
	name := s.TRES[r.TRES]
	switch {
	case name == TRESMemory:
		return bytes(uint64(n)) + " of memory"
	case name == TRESBilling:
		return fmt.Sprintf("%d of billing", n)
	case strings.HasPrefix(name, tresLicense):
		return count(uint64(n), "license") + " of " + strings.TrimPrefix(name, tresLicense)
	case strings.HasPrefix(name, tresModel):
		return count(uint64(n), "GPU") + " of model " + strings.TrimPrefix(name, tresModel)
	}
	return count(uint64(n), tresNoun(name))
}

// number is a number without what it counts.
func (r *LimitReached) number(s Snapshot, n int64) string {
	if r.TRES >= 0 && r.Kind != LimitLicenses && s.TRES[r.TRES] == TRESMemory {
		return bytes(uint64(n))
	}
	return fmt.Sprint(n)
}

// setTo is the limit as sacctmgr writes it: memory in MiB.
func (r *LimitReached) setTo(s Snapshot) string {
	if r.TRES >= 0 && r.Kind != LimitLicenses && s.TRES[r.TRES] == TRESMemory && !r.Kind.overTime() {
		return fmt.Sprintf("%dM", r.Limit>>20)
	}
	return fmt.Sprint(r.Limit)
}

// endless is what a job without a time limit counts for, at least.
const endless = int64(Unlimited) / 60

// added is what a job would add over time.
func (r *LimitReached) added(n int64) string {
	if n >= endless {
		return "no end of them, because it has no time limit: give it one with --time"
	}
	return fmt.Sprint(n)
}

func (r *LimitReached) could(s Snapshot) string {
	if r.Need >= endless {
		return "no end of " + tresNoun(s.TRES[r.TRES]) + " minutes, because it has no time limit"
	}
	return r.amount(s, r.Need)
}

// tresNoun is what one of a TRES is called.
func tresNoun(name string) string {
	switch name {
	case TRESCPU:
		return "CPU"
	case TRESGPU:
		return "GPU"
	case TRESNode:
		return "node"
	case TRESMemory:
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
