package policy

import (
	"fmt"
	"strings"
)

// ResetPeriod is how often all usage is reset, whatever the half-life
// (slurm.conf(5), PriorityUsageResetPeriod).
type ResetPeriod uint8

// Periods. Numbers are persisted: append only.
const (
	ResetNever     ResetPeriod = 0
	ResetNow       ResetPeriod = 1 // once, when the policy is put in force
	ResetDaily     ResetPeriod = 2
	ResetWeekly    ResetPeriod = 3
	ResetMonthly   ResetPeriod = 4
	ResetQuarterly ResetPeriod = 5
	ResetYearly    ResetPeriod = 6
)

// resetWords are Slurm's, by number.
var resetWords = []string{"NONE", "NOW", "DAILY", "WEEKLY", "MONTHLY", "QUARTERLY", "YEARLY"}

// String is Slurm's word.
func (r ResetPeriod) String() string { return wordOf(resetWords, uint8(r)) }

// ResetPeriodOf is the period of Slurm's word; one that Normalize refuses for any other.
func ResetPeriodOf(word string) ResetPeriod {
	return ResetPeriod(numberOf(resetWords, strings.ToUpper(word)))
}

func (r ResetPeriod) check() error {
	if int(r) >= len(resetWords) {
		return fmt.Errorf("priority.usage_reset_period: use one of %s", strings.Join(resetWords, ", "))
	}
	return nil
}
