package raftmode

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/test/sim/history"
)

// site is a cluster with nodes and users.
type site struct {
	t       *testing.T
	c       *cluster
	truth   *truth
	users   *users
	end     context.CancelFunc
	serving sync.WaitGroup
	faults  map[string]int
}

func newSite(t *testing.T, seed uint64) *site {
	s := &site{t: t, c: start(t, seed, 3), truth: newTruth(), faults: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	s.end = cancel
	s.users = newUsers(s.c)
	s.truth.waitOf = s.users.waitOf
	for number, name := range []string{"n1", "n2", "n3"} {
		m := newMachine(s.c, s.truth, name, number, seed)
		s.serving.Go(func() { m.serve(ctx) })
	}
	return s
}

// weather has things go wrong, one or two at a time, until a moment.
func (s *site) weather(seed uint64, until time.Time) {
	rng := rand.New(rand.NewPCG(seed, 50))
	for time.Now().Before(until) {
		time.Sleep(time.Duration(1+rng.IntN(8)) * time.Second)
		a, b := s.c.names[rng.IntN(3)], s.c.names[rng.IntN(3)]
		length := time.Duration(500+rng.IntN(12000)) * time.Millisecond
		kind := []string{"crash", "cut", "cut one way", "isolate", "isolate one way", "slow"}[rng.IntN(6)]
		s.faults[kind]++
		switch kind {
		case "crash":
			s.c.crash(a)
			time.Sleep(length)
			s.c.restart(a)
		case "cut", "cut one way":
			s.closed(length, kind == "cut", [2]string{a, b})
		case "isolate", "isolate one way":
			var ways [][2]string
			for _, other := range s.c.names {
				ways = append(ways, [2]string{a, other})
			}
			s.closed(length, kind == "isolate", ways...)
		case "slow":
			s.c.fabric.setDelay(time.Second)
			time.Sleep(length)
			s.c.fabric.setDelay(5 * time.Millisecond)
		}
	}
}

func (s *site) closed(length time.Duration, both bool, ways ...[2]string) {
	change := func(n int) {
		for _, way := range ways {
			s.c.fabric.cut(way[0], way[1], n)
			if both {
				s.c.fabric.cut(way[1], way[0], n)
			}
		}
	}
	change(1)
	time.Sleep(length)
	change(-1)
}

// settle waits until every job has ended, and answers all jobs.
func (s *site) settle() []*pb.Job {
	rng := rand.New(rand.NewPCG(1, 1))
	for begin := time.Now(); time.Since(begin) < 10*time.Minute; time.Sleep(5 * time.Second) {
		var jobs []*pb.Job
		s.users.again(rng, 20, func(ctx context.Context, c pb.ControllerClient) (err error) {
			jobs, err = list(ctx, c, &pb.JobFilter{AllStates: true})
			return err
		})
		live := 0
		for _, j := range jobs {
			if phaseOf(j) != history.Over {
				live++
			}
		}
		if len(jobs) > 0 && live == 0 {
			return jobs
		}
	}
	s.t.Error("stuck: jobs go on for 10 minutes after the last fault")
	return nil
}

// check looks at what was answered and at what really ran.
func (s *site) check(jobs []*pb.Job) {
	byName := map[string]uint32{}
	for _, j := range jobs {
		name := j.GetSpec().GetName()
		if other := byName[name]; other != 0 {
			s.t.Errorf("doubled: %s is both job %d and %d", name, other, j.GetId().GetJob())
		}
		byName[name] = j.GetId().GetJob()
	}
	for name, job := range s.users.jobs {
		if job != 0 && byName[name] != job {
			s.t.Errorf("lost: %s was answered job %d, the list has %d", name, job, byName[name])
		}
	}
	for _, wrong := range append(s.truth.wrong, s.users.wrong...) {
		s.t.Error(wrong)
	}
	if err := history.Check(s.users.operations); err != nil {
		s.t.Error(err)
	}
}

// same checks that each controller, as the leader, tells the same of all jobs.
func (s *site) same() {
	said := map[string]string{}
	rng := rand.New(rand.NewPCG(2, 2))
	for _, name := range s.c.names {
		ok := s.users.again(rng, 40, func(ctx context.Context, c pb.ControllerClient) error {
			if _, err := c.TransferLeadership(ctx, &pb.TransferLeadershipRequest{To: name}); err != nil {
				return fmt.Errorf("transfer: %w", err)
			}
			jobs, err := list(ctx, c, &pb.JobFilter{AllStates: true})
			text := ""
			for _, j := range jobs {
				text += j.String() + "\n"
			}
			said[name] = text
			return err
		})
		if !ok {
			s.t.Errorf("%s could not be asked as the leader", name)
		}
	}
	for _, name := range s.c.names {
		if said[name] != said[s.c.names[0]] {
			s.t.Errorf("states differ: %s says\n%s\n%s says\n%s", s.c.names[0], said[s.c.names[0]], name, said[name])
		}
	}
}

func (s *site) stop() {
	s.end()
	s.users.close()
	s.c.stop()
	s.serving.Wait()
}
