package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/test/chaos/history"
)

// How often things are looked at.
const (
	leaderPace   = 250 * time.Millisecond
	queuePace    = time.Second
	progressPace = 10 * time.Second
	operatorPace = 3 * time.Second
)

// watcher looks at the cluster from outside while it runs.
type watcher struct {
	cluster *cluster
	load    *load

	mu         sync.Mutex
	leader     string // of the highest term that answers
	term       uint64
	since      time.Time // when there was last a leader
	worst      time.Duration
	terms      map[uint64]string
	running    int
	waiting    int
	resumed    int // nodes that the operator took back
	released   int // jobs likewise
	elections  int
	changes    []int64          // when another leader was seen
	twoLeaders string           // two peers that led in one term
	jobs       []*pb.Job        // in the queue, by the last look
	seen       map[runOf]string // the nodes of runs
}

// runOf names a run of a job.
type runOf struct{ job, epoch uint32 }

func newWatcher(c *cluster, l *load) *watcher {
	return &watcher{cluster: c, load: l, since: time.Now(), terms: map[uint64]string{}, seen: map[runOf]string{}}
}

// run looks until ctx ends.
func (w *watcher) run(ctx context.Context) {
	var all sync.WaitGroup
	for pace, look := range map[time.Duration]func(context.Context){
		leaderPace: w.lookForLeader, queuePace: w.lookAtQueue, progressPace: w.progress, operatorPace: w.operate,
	} {
		all.Go(func() {
			tick := time.NewTicker(pace)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					look(ctx)
				}
			}
		})
	}
	all.Wait()
}

// lookForLeader asks every controller by itself, at once.
func (w *watcher) lookForLeader(ctx context.Context) {
	var all sync.WaitGroup
	answers := make([]*pb.PingResponse, len(w.cluster.controllers))
	for i, one := range w.cluster.controllers {
		all.Go(func() {
			limited, cancel := context.WithTimeout(ctx, leaderPace)
			defer cancel()
			answers[i], _ = one.client.Ping(limited, &pb.PingRequest{})
		})
	}
	all.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	found := ""
	for i, answer := range answers {
		if answer.GetRole() != "leader" {
			continue
		}
		name := w.cluster.controllers[i].name
		if former := w.terms[answer.Term]; former != "" && former != name {
			w.twoLeaders = fmt.Sprintf("%s and %s led in term %d", former, name, answer.Term)
		}
		w.terms[answer.Term] = name
		if answer.Term >= w.term {
			if answer.Term > w.term {
				w.elections++
				w.changes = append(w.changes, now())
			}
			w.term, found = answer.Term, name
		}
	}
	w.leader = found
	if found != "" {
		w.since = time.Now()
	}
	if ctx.Err() == nil {
		w.worst = max(w.worst, time.Since(w.since))
	}
}

// lookAtQueue counts jobs.
func (w *watcher) lookAtQueue(ctx context.Context) {
	jobs, err := w.cluster.listJobs(ctx, false)
	if err != nil {
		return
	}
	w.load.live.Store(int64(len(jobs)))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running, w.waiting, w.jobs = 0, 0, jobs
	for _, job := range jobs {
		if job.State == pb.JobState_JOB_STATE_PENDING {
			w.waiting++
		} else {
			w.running++
			w.seen[runOf{job.GetId().GetJob(), job.Epoch}] = job.NodeList
		}
	}
}

// seenOn are the nodes of a run; "" if nobody looked while it ran.
func (w *watcher) seenOn(job, epoch uint32) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[runOf{job, epoch}]
}

func (w *watcher) progress(context.Context) {
	accepted, unanswered := w.cluster.journal.counts()
	leader, _ := w.state()
	w.mu.Lock()
	running, waiting, term := w.running, w.waiting, w.term
	w.mu.Unlock()
	ended := max(accepted-running-waiting, 0)
	w.cluster.out.say("jobs: %d accepted, %d running, %d waiting, about %d ended, %d of unknown fate; %d faults; leader %s (term %d)",
		accepted, running, waiting, ended, unanswered, w.cluster.weather.count(), leader, term)
}

// into puts the changes of the leader into a history. On a busy machine one
// loses the lead without any fault; what went through it is lost.
func (w *watcher) into(h *history.History) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.changes {
		h.Faults = append(h.Faults, history.Fault{Kind: "leader-change", Everywhere: true, Harm: history.Harmless, From: at, To: at})
	}
}

// state answers who leads, and for how long nobody has at worst.
func (w *watcher) state() (leader string, worst time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leader == "" {
		return "nobody", w.worst
	}
	return w.leader, w.worst
}

// leading is the controller that leads; nil if none does.
func (w *watcher) leading() *controller {
	name, _ := w.state()
	for _, one := range w.cluster.controllers {
		if one.name == name {
			return one
		}
	}
	return nil
}

// operate does what an operator would: takes nodes back that were drained
// because a start failed on them, and releases jobs that were held for that.
func (w *watcher) operate(ctx context.Context) {
	nodes, err := w.cluster.listNodes(ctx)
	if err != nil {
		return
	}
	for _, n := range nodes {
		if !n.Drain && n.State != pb.NodeState_NODE_STATE_DOWN || n.NotResponding || n.Inventory.GetTrouble() != "" || w.cluster.isOff(n.Name) {
			continue
		}
		w.cluster.out.say("operator: resume %s, drained because: %s", n.Name, n.Reason)
		if _, err := w.cluster.tool(ctx, "gcontrol", "update", "node", n.Name, "state=resume"); err == nil {
			w.mu.Lock()
			w.resumed++
			w.mu.Unlock()
		}
	}
	jobs, err := w.cluster.listJobs(ctx, false)
	if err != nil {
		return
	}
	for _, j := range jobs {
		// Users' own holds are released by themselves.
		if j.State != pb.JobState_JOB_STATE_PENDING || !isHeldByFailure(j) {
			continue
		}
		w.cluster.out.say("operator: release %d (%s), held because: %s %s", j.GetId().GetJob(), j.GetSpec().GetName(), j.Reason, j.ReasonDetail)
		if _, err := w.cluster.tool(ctx, "gcontrol", "release", fmt.Sprint(j.GetId().GetJob())); err == nil {
			w.mu.Lock()
			w.released++
			w.mu.Unlock()
		}
	}
}

func isHeldByFailure(j *pb.Job) bool {
	return strings.Contains(j.Reason, "requeued_held") || strings.Contains(j.Reason, "RequeueHold") ||
		strings.Contains(j.Reason, "HoldMaxRequeue") || strings.Contains(j.Reason, "launch")
}
