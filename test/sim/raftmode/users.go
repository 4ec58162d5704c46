package raftmode

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/pki"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/test/sim/history"
)

// users are those who ask, through any of the controllers.
type users struct {
	c     *cluster
	begin time.Time
	conns []*grpc.ClientConn

	mu         sync.Mutex
	operations []history.Operation
	jobs       map[string]uint32 // by name of what was asked for
	waits      map[string]wait   // likewise
	wrong      []string
}

// wait is what a job waits for: the end of another, and a time.
type wait struct {
	job   uint32 // 0 = none
	begin time.Time
}

func newUsers(c *cluster) *users {
	u := &users{c: c, begin: time.Now(), jobs: map[string]uint32{}, waits: map[string]wait{}}
	config := c.tls(c.bundle(pki.User, "root"))
	for _, name := range c.names {
		u.conns = append(u.conns, c.connect("users", name, config))
	}
	return u
}

func (u *users) close() {
	for _, conn := range u.conns {
		_ = conn.Close()
	}
}

// uuid makes a request id.
func uuid(rng *rand.Rand) string {
	var b [16]byte
	for i := range b {
		b[i] = byte(rng.IntN(256))
	}
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// again asks one controller after another until one answers, and says whether
// one did.
func (u *users) again(rng *rand.Rand, tries int, ask func(context.Context, pb.ControllerClient) error) bool {
	at := rng.IntN(len(u.conns))
	for range tries {
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
		err := ask(ctx, pb.NewControllerClient(u.conns[at%len(u.conns)]))
		cancel()
		switch status.Code(err) {
		case codes.OK:
			return true
		case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted:
		default:
			u.note("refused: " + err.Error())
			return false
		}
		at++
		time.Sleep(time.Duration(50+rng.IntN(500)) * time.Millisecond)
	}
	return false
}

func (u *users) note(wrong string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.wrong = append(u.wrong, wrong)
}

func (u *users) record(o history.Operation, called time.Time, answered bool) {
	o.Call, o.Return, o.Unknown = called.Sub(u.begin), time.Since(u.begin), !answered
	u.mu.Lock()
	defer u.mu.Unlock()
	u.operations = append(u.operations, o)
}

// submit answers the job's number, 0 when it was not told.
func (u *users) submit(rng *rand.Rand, client int, name string, hold bool, w wait) uint32 {
	called, id, job := time.Now(), uuid(rng), uint32(0)
	spec := &pb.JobSpec{
		Name: name, Script: []byte("#!/bin/sh\n"), WorkDirectory: "/", MemoryPerNodeBytes: 1 << 28, Tasks: 1, Requeue: true, TimeLimitS: 600, Hold: hold,
	}
	if w.job != 0 {
		spec.Dependency = fmt.Sprintf("afterany:%d", w.job)
	}
	if !w.begin.IsZero() {
		spec.BeginMs = w.begin.UnixMilli()
	}
	u.mu.Lock()
	u.waits[name] = w
	u.mu.Unlock()
	answered := u.again(rng, 20, func(ctx context.Context, c pb.ControllerClient) error {
		answer, err := c.Submit(ctx, &pb.SubmitRequest{RequestId: id, AsUser: "nobody", Spec: spec})
		job = answer.GetJobId()
		return err
	})
	u.mu.Lock()
	u.jobs[name] = job
	u.mu.Unlock()
	if answered {
		u.record(history.Operation{Client: client, Kind: history.Submit, Job: job}, called, true)
	}
	return job
}

func (u *users) waitOf(name string) wait {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.waits[name]
}

func (u *users) cancel(rng *rand.Rand, client int, job uint32) {
	called, id := time.Now(), uuid(rng)
	o := history.Operation{Client: client, Kind: history.Cancel, Job: job, Phase: history.Waiting}
	answered := u.again(rng, 20, func(ctx context.Context, c pb.ControllerClient) error {
		answer, err := c.Cancel(ctx, &pb.CancelRequest{RequestId: id, Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: job}}}})
		for _, one := range answer.GetResults() {
			o.Done = one.GetError() == "" || one.GetAlreadyDone()
		}
		return err
	})
	u.record(o, called, answered)
}

func (u *users) query(rng *rand.Rand, client int, job uint32, tries int) {
	called := time.Now()
	o := history.Operation{Client: client, Kind: history.Query, Job: job}
	answered := u.again(rng, tries, func(ctx context.Context, c pb.ControllerClient) error {
		found, err := list(ctx, c, &pb.JobFilter{Ids: []*pb.JobId{{Job: job}}, AllStates: true})
		o.Phase = history.Missing
		for _, j := range found {
			o.Phase, o.Epoch = phaseOf(j), j.GetEpoch()
		}
		return err
	})
	u.record(o, called, answered)
}

func list(ctx context.Context, c pb.ControllerClient, filter *pb.JobFilter) (jobs []*pb.Job, err error) {
	stream, err := c.ListJobs(ctx, &pb.ListJobsRequest{Filter: filter})
	for err == nil {
		var message *pb.ListJobsResponse
		if message, err = stream.Recv(); err == nil {
			jobs = append(jobs, message.GetJobs()...)
		}
	}
	if err == io.EOF {
		err = nil
	}
	return jobs, err
}

func phaseOf(j *pb.Job) history.Phase {
	switch {
	case j.GetCompleting():
		return history.Ending
	case j.GetState() == pb.JobState_JOB_STATE_PENDING:
		return history.Waiting
	case j.GetState() == pb.JobState_JOB_STATE_RUNNING:
		return history.Running
	default:
		return history.Over
	}
}

// work is one user's day: jobs, and questions about them.
func (u *users) work(seed uint64, client int, until time.Time) {
	rng := rand.New(rand.NewPCG(seed, uint64(100+client)))
	former := uint32(0)
	for n := 0; time.Now().Before(until); n++ {
		time.Sleep(time.Duration(rng.IntN(4000)) * time.Millisecond)
		var w wait
		switch rng.IntN(4) {
		case 0:
			w.job = former
		case 1:
			w.begin = time.Now().Add(time.Duration(rng.IntN(30)) * time.Second).Truncate(time.Millisecond)
		}
		job := u.submit(rng, client, fmt.Sprintf("user%d-%d", client, n), false, w)
		if job == 0 {
			continue
		}
		former = job
		for range rng.IntN(4) {
			u.query(rng, client, job, 10)
			time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
		}
		if rng.IntN(4) == 0 {
			u.cancel(rng, client, job)
			u.query(rng, client, job, 10)
		}
	}
}
