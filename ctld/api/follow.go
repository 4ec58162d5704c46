package api

import (
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Bounds of followers: each has a queue, and looks at every change.
const (
	maxFollowers        = 8192
	maxFollowersPerUser = 1024
	// What one chooses by is kept as long as it follows, and compared with each change.
	maxFollowedValues = 1024
	maxFollowedBytes  = 64 << 10
)

// followers counts followers by user.
type followers struct {
	mu    sync.Mutex
	total int
	users map[uint32]int
}

// enter takes a place; leave gives it back.
func (f *followers) enter(uid uint32) (leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.total >= maxFollowers || f.users[uid] >= maxFollowersPerUser {
		return nil, status.Errorf(codes.ResourceExhausted, "too many clients follow changes (%d, %d of them this user's): end some of them", f.total, f.users[uid])
	}
	if f.users == nil {
		f.users = make(map[uint32]int)
	}
	f.total++
	f.users[uid]++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.total--
		if f.users[uid]--; f.users[uid] == 0 {
			delete(f.users, uid)
		}
	}, nil
}

// Follow streams changes as they are applied. A client that does not keep up
// is cut off, and lists again.
func (s *Controller) Follow(request *pb.FollowRequest, stream pb.Controller_FollowServer) error {
	over := s.cluster.Over()
	from, err := s.reader(stream.Context())
	if err != nil {
		return err
	}
	if values, bytes := valuesOf(request.GetFilter()), proto.Size(request.GetFilter()); values > maxFollowedValues || bytes > maxFollowedBytes {
		return invalid("%d values of %d bytes to choose changes by: at most %d of %d bytes; follow with fewer, and choose from what comes", values, bytes, maxFollowedValues, maxFollowedBytes)
	}
	leave, err := s.followers.enter(from.uid)
	if err != nil {
		return err
	}
	defer leave()
	f, err := newFilter(request.GetFilter())
	if err != nil {
		return err
	}
	f.all, f.states, f.completing, f.configured = true, nil, false, false
	changes, view, stop := s.cluster.Follow()
	defer stop()
	synced := &pb.Event{Index: view.Index(), TimeMs: view.TimeMS(), What: &pb.Event_Synced{Synced: &pb.Synced{}}}
	if err := stream.Send(synced); err != nil {
		return err
	}
	before := view // it still has the jobs that are forgotten next
	for {
		select {
		case change, open := <-changes:
			if !open {
				return status.Error(codes.OutOfRange, "too many changes were waiting to be read, or the state was replaced: list again and follow again")
			}
			if err := s.sendChange(stream, s.sightOf(from, before), s.sightOf(from, change.View), f, change); err != nil {
				return err
			}
			before = change.View
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-over:
			return status.Error(codes.Unavailable, "this controller does not lead any more: list again and follow again")
		case <-s.stop:
			return status.Error(codes.Unavailable, "this controller stops")
		}
	}
}

// sendChange sends the visible part of a change to this client: before is what
// the client could see until then, and may what it can see now.
func (s *Controller) sendChange(stream pb.Controller_FollowServer, before, may *sight, f *filter, change Change) error {
	send := func(event *pb.Event) error {
		event.Index, event.TimeMs = change.Result.Index, change.Result.TimeMS
		return stream.Send(event)
	}
	for _, id := range change.Result.ChangedJobs {
		job, known := change.View.Job(id)
		if !known || !f.covers(job) || !may.sees(job) {
			continue
		}
		message := s.jobMessage(may, selected{job: job}, state.JobDetail{})
		if err := send(&pb.Event{What: &pb.Event_Job{Job: message}}); err != nil {
			return err
		}
	}
	if f.empty() && !may.hides("nodes") && !may.hides("events") {
		for _, name := range change.Result.ChangedNodes {
			node, known := change.View.Node(name)
			if !known {
				continue
			}
			if err := send(&pb.Event{What: &pb.Event_Node{Node: may.node(change.View.NodeMessage(node))}}); err != nil {
				return err
			}
		}
	}
	for _, id := range change.Result.PurgedJobs {
		if _, wanted := f.named[id]; len(f.ids) > 0 && !wanted {
			continue
		}
		if may.hides("jobs") && !before.seesNumber(id) {
			continue
		}
		if err := send(&pb.Event{What: &pb.Event_Purged{Purged: &pb.Purged{JobId: id}}}); err != nil {
			return err
		}
	}
	return nil
}

// covers tests one record against all conditions, the ids too.
func (f *filter) covers(job *state.Job) bool {
	return (len(f.ids) == 0 || f.idsCover(job)) && f.matches(job)
}

func (f *filter) idsCover(job *state.Job) bool {
	if tasks, named := f.named[job.ID]; named && tasks == nil {
		return true
	}
	tasks, named := f.named[job.Array]
	switch {
	case !named || job.Array == 0:
		return false
	case tasks == nil:
		return true
	case job.HasTask:
		return tasks[job.Task]
	}
	for task := range tasks {
		if within(job.Tasks, task) {
			return true
		}
	}
	return false
}
