package doctor

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/finding"
)

// checkClock asks the kernel whether somebody keeps its clock right, and for
// the clock that leases count by.
func checkClock(context.Context) []finding.Finding {
	const name = "clock"
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return []finding.Finding{finding.Bad(name, fmt.Sprintf("CLOCK_BOOTTIME: %v", err), "leases of jobs cannot be kept", "boot Linux 5.19 or later")}
	}
	var status unix.Timex
	state, err := unix.Adjtimex(&status)
	if err != nil {
		return []finding.Finding{finding.Unseen(name, fmt.Sprintf("adjtimex: %v", err))}
	}
	if state == unix.TIME_ERROR || status.Status&unix.STA_UNSYNC != 0 {
		return []finding.Finding{finding.Doubtful(name, "nobody keeps it right: the kernel calls it unsynchronised",
			"leases do not suffer; certificates, times of jobs and of their files may be wrong", "apt-get install chrony, or timedatectl set-ntp true; then timedatectl shows it")}
	}
	return []finding.Finding{finding.Good(name, fmt.Sprintf("synchronised, to %v by the kernel's estimate", time.Duration(status.Esterror)*time.Microsecond))}
}

// Differences of clocks between this host and a controller.
const (
	noticeable = time.Second
	harmful    = time.Minute
)

// judgeSkew compares the controller's clock with this one's at the middle of
// the call, which is right to within half of what the call took.
func judgeSkew(check string, theirs, asked, answered time.Time) finding.Finding {
	took := answered.Sub(asked)
	skew := theirs.Sub(asked.Add(took / 2))
	uncertain := took / 2
	seen := fmt.Sprintf("the controller's clock is %v ahead of this host's (to within %v)", skew.Round(time.Millisecond), uncertain.Round(time.Millisecond))
	if skew < 0 {
		seen = fmt.Sprintf("the controller's clock is %v behind this host's (to within %v)", -skew.Round(time.Millisecond), uncertain.Round(time.Millisecond))
	}
	fix := "keep both right: apt-get install chrony, or timedatectl set-ntp true"
	switch off := skew.Abs() - uncertain; {
	case off > harmful:
		return finding.Bad(check, seen, "times of jobs and of their files are wrong, and certificates may not be good yet, or have expired; leases do not suffer", fix)
	case off > noticeable:
		return finding.Doubtful(check, seen, "times of jobs and of their files do not fit together; leases do not suffer", fix)
	}
	return finding.Good(check, seen)
}
