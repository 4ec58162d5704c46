package api

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// sight is what a caller may read, as of one moment. Handlers that answer about
// jobs, nodes or users ask it, and no other code decides this.
type sight struct {
	view        *state.View
	uid         uint32 // of a user
	isUser      bool
	all         bool   // operators and administrators
	admin       bool   // administrators
	coordinator string // the name of a coordinator of accounts, "" = is none
}

// sightOf is what the caller may read in this View.
func (s *Controller) sightOf(from *caller, view *state.View) *sight {
	return &sight{
		view: view, uid: from.uid, isUser: from.isUser,
		all: s.levelOf(from, view) >= state.Operator, admin: s.isAdministrator(from), coordinator: s.coordinator(from),
	}
}

// owns reports whether the job is the caller's own.
func (s *sight) owns(job *state.Job) bool { return s.isUser && job.Owner().UID == s.uid }

// reads reports whether the caller may read what a user gives to a job: its
// script and arguments, and reports about its processes. The user may,
// coordinators of its account, operators and administrators (scontrol(1),
// "write batch_script").
func (s *sight) reads(job *state.Job) bool {
	return s.all || s.owns(job) || s.coordinator != "" && s.view.Coordinates(s.coordinator, job)
}

// readsEnvironment reports the same of the environment, in which users keep
// passwords: for one's own jobs, and for administrators.
func (s *sight) readsEnvironment(job *state.Job) bool { return s.admin || s.owns(job) }

// hides reports whether the policy keeps a kind of information from the caller,
// apart from what is the caller's own.
func (s *sight) hides(word string) bool { return !s.all && s.view.Policy().Hides(word) }

// sees reports whether a job exists for the caller.
func (s *sight) sees(job *state.Job) bool {
	return !s.hides("jobs") || s.owns(job) || s.coordinator != "" && s.view.Coordinates(s.coordinator, job)
}

// seesNumber reports the same of a job by its number.
func (s *sight) seesNumber(id uint32) bool {
	job, known := s.view.Job(id)
	return known && s.sees(job)
}

// seen are the jobs that a target means, as far as they exist for the caller.
func (s *sight) seen(target state.Target) []resolved {
	found := slices.DeleteFunc(resolve(s.view, target), func(r resolved) bool { return r.job != nil && !s.sees(r.job) })
	if len(found) == 0 {
		return []resolved{{id: &pb.JobId{Job: target.Job}}}
	}
	return found
}

// unknown is the message about a job that does not exist for the caller. A
// caller who may not see the jobs of others learns nothing about numbers.
func (s *sight) unknown(id *pb.JobId) string {
	if s.hides("jobs") {
		return s.view.UnknownJob(0, nil, nil)
	}
	if id.ArrayTask == nil {
		return s.view.UnknownJob(id.GetJob(), nil, nil)
	}
	task := id.GetArrayTask()
	return s.view.UnknownJob(id.GetJob(), s.seen(state.Target{Job: id.GetJob()})[0].job, []ranges.Range{{First: task, Last: task, Step: 1}})
}

// jobInText is how sentences name jobs.
var jobInText = regexp.MustCompile(`\bjob ([0-9]+)\b`)

// conceal removes the numbers of jobs that the caller may not see from a
// sentence about a job that the caller may see.
func (s *sight) conceal(text string) string {
	if !s.hides("jobs") {
		return text
	}
	return jobInText.ReplaceAllStringFunc(text, func(found string) string {
		id, err := strconv.ParseUint(strings.TrimPrefix(found, "job "), 10, 32)
		if err == nil && s.seesNumber(uint32(id)) {
			return found
		}
		return "another job"
	})
}

// overlay leaves what the leader's plan says about the caller's own job.
func (s *sight) overlay(overlay state.Overlay) state.Overlay {
	if overlay.NamesOthers && (s.hides("jobs") || s.hides("usage")) {
		overlay.Detail = ""
	}
	return overlay
}

// withhold removes what the caller may not read from a message. The table of
// TestEveryFieldOfAJobIsClassified says which fields of a job are public.
func (s *sight) withhold(job *state.Job, message *pb.Job) {
	if !s.readsEnvironment(job) {
		withholdEnvironment(message)
	}
	if !s.reads(job) {
		withholdPrivate(message)
		if s.hides("usage") {
			message.Usage = nil
		}
	}
	message.ReasonDetail = s.conceal(message.ReasonDetail)
	if saved := message.GetSaved(); saved != nil {
		saved.Failed = s.conceal(saved.GetFailed())
		if failed := saved.GetMoveFailed(); failed != nil {
			failed.Reason = s.conceal(failed.Reason)
		}
		if under := saved.GetSaving(); under != nil && under.GetForJob() != 0 && s.hides("jobs") && !s.seesNumber(under.GetForJob()) {
			under.ForJob = 0
		}
	}
}

// withholdEnvironment removes what a job's environment may hold: --export sets
// variables too.
func withholdEnvironment(message *pb.Job) {
	asked := message.GetSpec()
	if asked != nil {
		asked.Environment, asked.ExportOption = nil, ""
	}
}

// withholdPrivate removes what is between a user and the job.
func withholdPrivate(message *pb.Job) {
	if asked := message.GetSpec(); asked != nil {
		asked.Script, asked.Arguments, asked.Umask = nil, nil, 0
		asked.MailTypes, asked.MailUser = 0, ""
		asked.Mounts, asked.Staging = nil, nil
		asked.Image, asked.Container = "", nil // name places, and what its user works with
	}
	if owner := message.GetOwner(); owner != nil {
		owner.Groups, owner.Home, owner.Shell = nil, "", ""
	}
	message.ReasonDetail = "" // quotes paths, messages of programs and other jobs
	if saved := message.GetSaved(); saved != nil {
		saved.CheckpointableReason, saved.Failed, saved.Undone = "", "", "" // name processes, their connections, and paths
		withholdTries(saved)
		withholdDigests(saved.GetRestoredFrom())
		for _, image := range saved.GetImages() {
			withholdDigests(image)
		}
	}
}

// withholdTries removes why nodes could not resume a job, which names its
// files.
func withholdTries(saved *pb.JobSaved) {
	if failed := saved.GetMoveFailed(); failed != nil {
		failed.Reason = ""
	}
	for _, try := range slices.Concat(saved.GetMoving().GetTries(), saved.GetMoveFailed().GetTries()) {
		try.Reason = ""
	}
}

func withholdDigests(image *pb.SavedImage) {
	if image == nil {
		return
	}
	image.Digest = nil
	for _, alloc := range image.GetAllocs() {
		alloc.Digest = nil
	}
}
