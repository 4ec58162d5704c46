package api

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/history"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// History is what the handlers need of the runs that are over.
type History interface {
	// Read calls use with runs in the order of their jobs, up to the position that it
	// returns and not behind last.
	Read(ctx context.Context, choice history.Choice, last state.Position, use func(*history.Found) error) (state.Position, error)
	// Sum adds runs up, and calls use with those that it cannot add up.
	Sum(ctx context.Context, choice history.Choice, last state.Position, use func(*history.Found) error) ([]*pb.RunSum, state.Position, error)
	// Copy returns rows behind a position, and up to where they are complete.
	Copy(ctx context.Context, after state.Position) ([]history.Row, state.Position, error)
}

// noHistory is that of a controller without a database.
type noHistory struct{}

func (noHistory) Read(context.Context, history.Choice, state.Position, func(*history.Found) error) (state.Position, error) {
	return 0, history.ErrAway
}

func (noHistory) Sum(context.Context, history.Choice, state.Position, func(*history.Found) error) ([]*pb.RunSum, state.Position, error) {
	return nil, 0, history.ErrAway
}

func (noHistory) Copy(context.Context, state.Position) ([]history.Row, state.Position, error) {
	return nil, 0, history.ErrAway
}

// What an answer says that may lack something.
const (
	noticeAway   = "the history database of this controller cannot be read, only what ended lately is shown: see gcontrol status"
	noticeBehind = "the history database of this controller is still being filled from the others: runs and events may be missing, ask again later"
)

// ListRuns streams the matching runs. What the database does not have yet comes from the
// state: the answer has all that ended before the request.
func (s *Controller) ListRuns(request *pb.ListRunsRequest, stream pb.Controller_ListRunsServer) error {
	from, err := s.reader(stream.Context())
	if err != nil {
		return err
	}
	f, err := newFilter(request.GetFilter())
	if err != nil {
		return err
	}
	fields, err := runFields(request)
	if err != nil {
		return err
	}
	leave, err := s.readers.enter(stream.Context(), from.uid)
	if err != nil {
		return err
	}
	defer leave()
	view := s.cluster.View()
	list := &runList{request: request, filter: f, fields: fields, may: s.sightOf(from, view), stream: stream, message: &pb.EncodedRuns{Cluster: view.Policy().ClusterName}}
	recent := list.live(s)
	// The position is known only once the database was read, and its rows come in the
	// middle of the others: those of the outbox are told apart by their positions.
	for run := range view.HistoryAfter(0) {
		if one := list.fresh(run); one != nil {
			recent = append(recent, *one)
		}
	}
	slices.SortStableFunc(recent, func(a, b recentRun) int {
		return cmp.Or(cmp.Compare(a.run.Job.Id.Job, b.run.Job.Id.Job), cmp.Compare(a.at, b.at))
	})
	if list.summable() {
		return s.sumRuns(list, recent)
	}
	read := func(found *history.Found) error {
		for len(recent) > 0 && recent[0].before(found.Job, found.At) {
			if err := list.add(recent[0].run); err != nil {
				return err
			}
			recent = recent[1:]
		}
		if len(recent) > 0 && recent[0].at == found.At { // in both
			recent = recent[1:]
		}
		return list.addFound(found)
	}
	through, err := s.options.History.Read(stream.Context(), list.choice(), state.EndOf(view.Index()), read)
	if stream.Context().Err() != nil {
		return stream.Context().Err()
	}
	list.message.Notice = s.historyNotice(view, through, err)
	for _, rest := range recent {
		if err := list.add(rest.run); err != nil {
			return err
		}
	}
	return list.end()
}

// sumRuns answers with sums, and with the runs that are in none.
func (s *Controller) sumRuns(list *runList, recent []recentRun) error {
	ctx, view := list.stream.Context(), list.may.view
	sums, through, err := s.options.History.Sum(ctx, list.choice(), state.EndOf(view.Index()), list.addFound)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	list.message.Notice = s.historyNotice(view, through, err)
	for _, sum := range sums {
		if list.message.Sums = append(list.message.Sums, sum); len(list.message.Sums) == maxJobsPerMessage {
			if err := list.send(); err != nil {
				return err
			}
		}
	}
	for _, rest := range recent {
		if rest.at <= through { // it has been counted
			continue
		}
		if err := list.add(rest.run); err != nil {
			return err
		}
	}
	return list.end()
}

// historyNotice is what an answer says that was read up to a position, or could not be read.
func (s *Controller) historyNotice(view *state.View, through state.Position, err error) string {
	switch {
	case err != nil:
		s.log.Warn("the history database could not be read for a request; see gcontrol status, and look at its disk or server", "error", err)
		return noticeAway
	case through < view.HistoryTrimmed():
		return noticeBehind
	}
	return ""
}

// recentRun is a run that the state knows: of the outbox, or one that is not over, which
// is behind all that are.
type recentRun struct {
	at  state.Position
	run *pb.PastRun
}

// behindAll is the position of a run that is not over.
const behindAll = ^state.Position(0)

func (r *recentRun) before(job uint32, at state.Position) bool {
	mine := r.run.Job.Id.Job
	return mine < job || mine == job && r.at < at
}

// runList is one answer that is being made.
type runList struct {
	request *pb.ListRunsRequest
	filter  *filter
	fields  *wantedFields
	may     *sight
	stream  pb.Controller_ListRunsServer
	message *pb.EncodedRuns
	room    []byte // of the runs of the message
	lastJob uint32 // of the last of them; of a job only the last run is shown
}

// choice is what the database can look for itself.
func (l *runList) choice() history.Choice {
	choice := history.Choice{SinceMS: l.request.GetSinceMs(), UntilMS: l.request.GetUntilMs()}
	for id := range l.filter.named {
		choice.Jobs = append(choice.Jobs, id)
	}
	message := l.request.GetFilter()
	choice.UIDs, choice.Users, choice.Accounts = message.GetUids(), message.GetUsers(), message.GetAccounts()
	if l.may.hides("jobs") && l.may.coordinator == "" {
		choice.UIDs = []uint32{l.may.uid}
		if len(message.GetUids()) > 0 && !slices.Contains(message.GetUids(), l.may.uid) {
			choice.UIDs = message.GetUids() // none of which matches
		}
	}
	return choice
}

// live are the runs that are not over, if they are wanted.
func (l *runList) live(s *Controller) []recentRun {
	if !l.request.GetLive() {
		return nil
	}
	var runs []recentRun
	// The machine's time is that of its last command, which may be minutes ago.
	now := max(l.may.view.TimeMS(), time.Now().UnixMilli())
	for job := range l.may.view.LiveJobs() {
		if !l.filter.matches(job) || !l.may.sees(job) {
			continue
		}
		chosen := selected{job: job}
		run := &pb.PastRun{Job: s.jobMessage(l.may, chosen, state.JobDetail{}), Live: true, LostGpuMs: job.LostBefore().LostGPUMS, Preemptions: job.LostBefore().Count}
		if job.Run != nil {
			run.RanMs = job.Run.RanAtMS(now)
		}
		if l.matches(run) {
			runs = append(runs, recentRun{behindAll, run})
		}
	}
	return runs
}

// fresh is a run of the outbox, if it matches.
func (l *runList) fresh(stored state.HistoryRun) *recentRun {
	run := new(pb.PastRun)
	if err := proto.Unmarshal(stored.Run, run); err != nil || run.GetEvent() != nil || !l.matches(run) {
		return nil
	}
	return &recentRun{stored.At, run}
}

// matches tests all conditions.
func (l *runList) matches(run *pb.PastRun) bool {
	job, f := run.GetJob(), l.filter
	if !l.sees(run) || !l.inTime(run) {
		return false
	}
	asked := job.GetSpec()
	return (f.named == nil || len(f.ids) == 0 || f.isNamed(job)) &&
		(f.users == nil || f.users[job.GetOwner().GetUser()]) &&
		(f.uids == nil || f.uids[job.GetOwner().GetUid()]) &&
		(f.jobNames == nil || f.jobNames[asked.GetName()]) &&
		(f.accounts == nil || f.accounts[asked.GetAccount()]) &&
		(f.qos == nil || f.qos[cmp.Or(asked.GetQos(), state.NormalQOS)]) &&
		(f.reserved == nil || slices.ContainsFunc(asked.GetReservations(), func(name string) bool { return f.reserved[name] })) &&
		(f.partitions == nil || f.partitions[job.GetPartition()] || run.GetLive() && slices.ContainsFunc(asked.GetPartitions(), func(name string) bool { return f.partitions[name] })) &&
		(f.nodes == nil || slices.ContainsFunc(job.GetAllocation(), func(node *pb.NodeAllocation) bool { return f.nodes[node.GetNode()] })) &&
		(len(f.states) == 0 || f.states[job.GetState()])
}

// isNamed reports whether one of the ids means the job: by its number, or that of its
// array, or as a task of that.
func (f *filter) isNamed(job *pb.Job) bool {
	if tasks, is := f.named[job.GetId().GetJob()]; is && (tasks == nil || job.GetArrayJobId() != job.GetId().GetJob()) {
		return true
	}
	tasks, is := f.named[job.GetArrayJobId()]
	if !is || job.GetArrayJobId() == 0 {
		return false
	}
	if tasks == nil {
		return true
	}
	if job.GetId().ArrayTask != nil {
		return tasks[job.GetId().GetArrayTask()]
	}
	waiting := taskRanges(job.GetWaitingTasks().GetRanges())
	for task := range tasks {
		if within(waiting, task) {
			return true
		}
	}
	return false
}

// inTime reports whether the job was there in the time that is asked for.
func (l *runList) inTime(run *pb.PastRun) bool {
	since, until := l.request.GetSinceMs(), l.request.GetUntilMs()
	job := run.GetJob()
	return (until == 0 || cmp.Or(job.GetEligibleMs(), job.GetSubmitMs()) < until) && (since == 0 || run.GetLive() || job.GetEndMs() >= since)
}

// sees reports whether the run exists for the caller.
func (l *runList) sees(run *pb.PastRun) bool {
	if run.GetLive() {
		return true // was judged with the job itself
	}
	may, job := l.may, run.GetJob()
	return !may.hides("jobs") || may.isUser && may.uid == job.GetOwner().GetUid() || may.coordinator != "" && may.view.CoordinatesAccount(may.coordinator, job.GetSpec().GetAccount())
}

// withheld is the run without what the caller may not read.
func (l *runList) withheld(run *pb.PastRun) *pb.PastRun {
	may, job := l.may, run.GetJob()
	if run.GetLive() {
		return run // was withheld with the job itself
	}
	if may.all || may.isUser && may.uid == job.GetOwner().GetUid() || may.coordinator != "" && may.view.CoordinatesAccount(may.coordinator, job.GetSpec().GetAccount()) {
		job.ReasonDetail = may.conceal(job.GetReasonDetail())
		return run
	}
	withholdPrivate(job)
	for _, node := range run.GetSteps() {
		for _, part := range node.GetSteps() {
			part.Name = ""
		}
	}
	if may.hides("usage") {
		job.Usage, run.Steps = nil, nil
	}
	return run
}

// addFound puts a run of the database into the answer, if it matches.
func (l *runList) addFound(found *history.Found) error {
	if l.chosenByDatabase() && l.readsAll(found.UID) {
		return l.put(found.Job, found.Encoded())
	}
	run, err := found.Run()
	if err != nil || !l.matches(run) {
		return err
	}
	return l.add(run)
}

// chosenByDatabase reports whether the database has tested all conditions.
func (l *runList) chosenByDatabase() bool {
	f := l.filter
	return len(f.ids) == 0 && f.jobNames == nil && f.qos == nil && f.reserved == nil && f.partitions == nil && f.nodes == nil && len(f.states) == 0
}

// summable reports whether sums over what the database chooses are what is asked for, and
// have nothing that the caller may not see.
func (l *runList) summable() bool {
	if !l.request.GetSums() || !l.request.GetDuplicates() || !l.chosenByDatabase() {
		return false
	}
	return !l.may.hides("jobs") || l.may.isUser && l.may.coordinator == "" && slices.Equal(l.choice().UIDs, []uint32{l.may.uid})
}

// readsAll reports whether the caller may read all of what is wanted of a user's runs.
func (l *runList) readsAll(uid uint32) bool {
	return l.may.all || l.may.isUser && l.may.uid == uid && !(l.may.hides("jobs") && wantsReason(l.request))
}

// add puts a run into the answer.
func (l *runList) add(run *pb.PastRun) error {
	encoded, err := proto.Marshal(l.withheld(run))
	if err != nil {
		return err
	}
	return l.put(run.GetJob().GetId().GetJob(), encoded)
}

// put adds what is wanted of a run. The one before it is sent only now: it may have been of
// the same job.
func (l *runList) put(job uint32, encoded []byte) (err error) {
	count := len(l.message.Runs)
	if count > 0 && job == l.lastJob && !l.request.GetDuplicates() {
		count--
		l.room = l.room[:len(l.room)-len(l.message.Runs[count])]
		l.message.Runs = l.message.Runs[:count]
	}
	if count == maxJobsPerMessage || len(l.room) >= maxBytesPerMessage {
		if err := l.send(); err != nil {
			return err
		}
	}
	from := len(l.room)
	if l.room, err = l.fields.appendTo(l.room, encoded); err != nil {
		return errors.Join(history.ErrDamaged, err)
	}
	l.lastJob = job
	l.message.Runs = append(l.message.Runs, l.room[from:len(l.room):len(l.room)])
	return nil
}

// send sends what there is. The message may be in use for longer: it gets other room.
func (l *runList) send() error {
	err := l.stream.SendMsg(l.message)
	l.room = make([]byte, 0, len(l.room)+len(l.room)/8)
	l.message = &pb.EncodedRuns{Runs: make([][]byte, 0, len(l.message.Runs))}
	return err
}

// end sends what is left.
func (l *runList) end() error {
	if len(l.message.Runs) == 0 && len(l.message.Sums) == 0 && l.message.Notice == "" {
		return nil
	}
	return l.send()
}
