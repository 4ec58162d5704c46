package policy

import (
	"cmp"
	"fmt"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// Scheduler says which jobs may start before others that wait. The zero
// Scheduler is the default. A number that is Unlimited stands for all.
type Scheduler struct {
	Type          uint8  `cbor:"1,keyasint,omitempty"` // Position in schedulerTypes
	PartJobs      uint32 `cbor:"2,keyasint,omitempty"` // see sched.BackfillPolicy; 0 = DefaultPartJobs
	MaxJobs       uint32 `cbor:"3,keyasint,omitempty"` // 0 = DefaultPlannedJobs
	ArrayTasks    uint32 `cbor:"4,keyasint,omitempty"` // 0 = DefaultPlannedTasks
	ShortestFirst bool   `cbor:"5,keyasint,omitempty"`
	// How many runs that are over are kept for a replay, and how long. 0 =
	// DefaultReplayRuns, DefaultReplayAgeS.
	ReplayRuns uint32 `cbor:"580,keyasint,omitempty"`
	ReplayAgeS uint32 `cbor:"581,keyasint,omitempty"`
	Predict    uint8  `cbor:"582,keyasint,omitempty"` // Position in predictions
	UserTop    bool   `cbor:"583,keyasint,omitempty"` // users too may order their own jobs: TopJobs
}

// How many starts are planned where the policy does not say. Slurm plans those of 500
// jobs, and 20 of an array. Ten in each partition keep wide jobs from starving, and a
// pass stays short.
const (
	DefaultPartJobs     = 10
	DefaultPlannedJobs  = 500
	DefaultPlannedTasks = 20
)

// What is kept for a replay where the policy does not say: some weeks, in about three
// megabytes.
const (
	DefaultReplayRuns = 50_000
	DefaultReplayAgeS = 28 * 24 * 3600
)

// maxReplayRuns bounds the record: thirty megabytes.
const maxReplayRuns = 500_000

// KeptRuns is how many ended runs are kept for replays.
func (p *Scheduler) KeptRuns() uint32 { return bounded(p.ReplayRuns, DefaultReplayRuns) }

// KeptRunsAgeS is how old they get.
func (p *Scheduler) KeptRunsAgeS() uint32 { return cmp.Or(p.ReplayAgeS, DefaultReplayAgeS) }

// maxPlanned bounds the settings.
const maxPlanned = 1_000_000

// schedulerTypes are the words of the API and of cluster.toml, by number. With builtin
// nothing starts before a job that waits.
var schedulerTypes = []string{"backfill", "builtin"}

// predictions are the words for what plans go by, by number: time limits, or what jobs will
// probably run (sched/predict).
var predictions = []string{"none", PredictRecentTwo, PredictLearned}

// Predictions by which the leader plans.
const (
	PredictRecentTwo = "recent-two"
	PredictLearned   = "learned"
)

// Predicts is by what run times are predicted; "" = they are not.
func (p *Scheduler) Predicts() string {
	if p.Predict == 0 || !p.Backfills() {
		return ""
	}
	return wordOf(predictions, p.Predict)
}

// Backfills reports whether jobs may start before others that wait longer.
func (p *Scheduler) Backfills() bool { return p.Type == 0 }

// bounded is a setting in force, of which 0 is all.
func bounded(setting, usual uint32) uint32 {
	if setting == sched.Unlimited {
		return 0
	}
	return cmp.Or(setting, usual)
}

// Scheduled is the policy as the scheduler has it.
func (p *Scheduler) Scheduled() sched.BackfillPolicy {
	return sched.BackfillPolicy{
		On: p.Backfills(), PartJobs: bounded(p.PartJobs, DefaultPartJobs), MaxJobs: bounded(p.MaxJobs, DefaultPlannedJobs),
		ArrayTasks: bounded(p.ArrayTasks, DefaultPlannedTasks), ShortestFirst: p.ShortestFirst, FirstByLimits: p.Predicts() != "",
	}
}

func (p *Scheduler) word() string { return wordOf(schedulerTypes, p.Type) }

// Message is the policy with all numbers.
func (p *Scheduler) message() *pb.SchedulerPolicy {
	in := p.Scheduled()
	return &pb.SchedulerPolicy{
		Type: p.word(), BfJobPartCountReserve: in.PartJobs, BfMaxJobTest: in.MaxJobs, BfMaxJobArrayResv: in.ArrayTasks, BfShortestFirst: in.ShortestFirst,
		ReplayRuns: p.KeptRuns(), ReplayAgeS: p.KeptRunsAgeS(), Predict: wordOf(predictions, p.Predict), EnableUserTop: p.UserTop,
	}
}

// SchedulerFromMessage reads a message; none is the default.
func SchedulerFromMessage(m *pb.SchedulerPolicy) Scheduler {
	if m == nil {
		return Scheduler{}
	}
	stored := func(number, usual uint32) uint32 {
		switch number {
		case 0:
			return sched.Unlimited
		case usual:
			return 0
		}
		return number
	}
	ageS := m.GetReplayAgeS()
	if ageS == DefaultReplayAgeS {
		ageS = 0
	}
	return Scheduler{
		ReplayAgeS: ageS, UserTop: m.GetEnableUserTop(),
		Type:     numberOf(schedulerTypes, m.GetType()),
		PartJobs: stored(m.GetBfJobPartCountReserve(), DefaultPartJobs), MaxJobs: stored(m.GetBfMaxJobTest(), DefaultPlannedJobs),
		ArrayTasks: stored(m.GetBfMaxJobArrayResv(), DefaultPlannedTasks), ShortestFirst: m.GetBfShortestFirst(),
		ReplayRuns: stored(m.GetReplayRuns(), DefaultReplayRuns), Predict: numberOf(predictions, cmp.Or(m.GetPredict(), "none")),
	}
}

func (p *Scheduler) normalize() error {
	if int(p.Type) >= len(schedulerTypes) {
		return fmt.Errorf("scheduler.type: use builtin or backfill")
	}
	if int(p.Predict) >= len(predictions) {
		return fmt.Errorf("scheduler.predict: use %s", strings.Join(predictions, ", "))
	}
	if p.Predict != 0 && p.KeptRuns() == 0 {
		return fmt.Errorf("scheduler.predict: run times are predicted from the runs that are remembered, which are none with replay_runs = 0: remember some, or predict none")
	}
	for _, number := range []struct {
		key   string
		value uint32
	}{{"bf_job_part_count_reserve", p.PartJobs}, {"bf_max_job_test", p.MaxJobs}, {"bf_max_job_array_resv", p.ArrayTasks}} {
		if number.value > maxPlanned && number.value != sched.Unlimited {
			return fmt.Errorf("scheduler.%s: at most %d", number.key, maxPlanned)
		}
	}
	if p.ReplayRuns > maxReplayRuns && p.ReplayRuns != sched.Unlimited {
		return fmt.Errorf("scheduler.replay_runs: at most %d", maxReplayRuns)
	}
	if p.ArrayTasks == sched.Unlimited {
		return fmt.Errorf("scheduler.bf_max_job_array_resv: at least 1")
	}
	return nil
}

func (p *Scheduler) settings() []setting {
	in := p.Scheduled()
	return []setting{
		{"type", p.word()},
		{"bf_job_part_count_reserve", fmt.Sprint(in.PartJobs)},
		{"bf_max_job_test", fmt.Sprint(in.MaxJobs)},
		{"bf_max_job_array_resv", fmt.Sprint(in.ArrayTasks)},
		{"bf_shortest_first", fmt.Sprint(in.ShortestFirst)},
		{"replay_runs", fmt.Sprint(p.KeptRuns())},
		{"replay_age", clockOf(p.KeptRunsAgeS())},
		{"predict", wordOf(predictions, p.Predict)},
		{"enable_user_top", fmt.Sprint(p.UserTop)},
	}
}

// parameters are the settings as Slurm's SchedulerParameters.
func (p *Scheduler) parameters() string {
	var words []string
	for _, s := range p.settings() {
		switch {
		case s.value == "false" || s.key != "enable_user_top" && (!strings.HasPrefix(s.key, "bf_") || !p.Backfills()):
		case s.value == "true":
			words = append(words, s.key)
		default:
			words = append(words, s.key+"="+s.value)
		}
	}
	return cmp.Or(strings.Join(words, ","), "(null)")
}
