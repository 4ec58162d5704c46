package scenario

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// runEvery: one in so many of a storm's jobs runs. The others are held, which costs
// nothing: a submission that is lost is found among those too.
const runEvery = 3

// storm is `storm COUNT KILLS`: submits COUNT jobs by gsubmit as alice, a few
// at once, and kills the controller KILLS times at random meanwhile. Then every
// number that gsubmit printed must be held or must have run exactly once, and
// nothing else. GLEANER_STORM overrides the count.
func storm(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: storm COUNT KILLS")
	}
	if count := os.Getenv("GLEANER_STORM"); count != "" {
		args[0] = count
	}
	count, err := strconv.Atoi(args[0])
	ts.Check(err)
	kills, err := strconv.Atoi(args[1])
	ts.Check(err)

	stop := make(chan struct{})
	killed := make(chan int)
	go func() { killed <- killAtRandom(ts.Getenv("CLUSTER"), kills, stop) }()
	s := submitMany(ts, count)
	close(stop)
	ts.Logf("%d submissions accepted, %d not, the controller killed %d times", len(s.run)+len(s.held), len(s.failures), <-killed)
	for _, failure := range s.failures {
		ts.Logf("not accepted: %s", failure)
	}
	if len(s.run)+len(s.held) < count*9/10 {
		ts.Fatalf("only %d of %d submissions were accepted", len(s.run)+len(s.held), count)
	}
	if err := ranOnce(filepath.Join(ts.Getenv("ALICE"), "runs"), s.run, len(s.failures)); err != nil {
		ts.Fatalf("%v", err)
	}
	if err := areHeld(ts, s.held, len(s.failures)); err != nil {
		ts.Fatalf("%v", err)
	}
}

// submissions are the numbers that gsubmit printed, and what it said instead.
type submissions struct {
	run, held map[string]bool
	failures  []string
}

// submitMany submits from a few clients at once.
func submitMany(ts *testscript.TestScript, count int) submissions {
	const clients = 4
	script := "echo $SLURM_JOB_ID >> runs"
	s := submissions{run: map[string]bool{}, held: map[string]bool{}}
	work := make(chan int)
	var mutex sync.Mutex
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for i := range work {
				words := []string{"alice", "gsubmit", "--parsable", "-o", "/dev/null", "--mem=16M", "--wrap", script}
				accepted := s.run
				if i%runEvery != 0 {
					words, accepted = append(words, "--hold"), s.held
				}
				out, err := quietly(ts, "as", words...)
				mutex.Lock()
				if id := strings.TrimSpace(out); err == nil && !s.run[id] && !s.held[id] {
					accepted[id] = true
				} else {
					s.failures = append(s.failures, fmt.Sprintf("%s: %v", id, err))
				}
				mutex.Unlock()
			}
		})
	}
	for i := range count {
		work <- i
	}
	close(work)
	group.Wait()
	return s
}

// areHeld: the queue holds every held job, and of those whose submission failed at
// most as many as failed.
func areHeld(ts *testscript.TestScript, held map[string]bool, failures int) error {
	out, err := quietly(ts, "gqueue", "-h", "-t", "PENDING", "-o", "%i")
	if err != nil {
		return err
	}
	found := strings.Fields(out)
	unknown := 0
	for _, id := range found {
		if !held[id] {
			unknown++
		}
	}
	if unknown > failures {
		return fmt.Errorf("%d jobs wait that no gsubmit printed, but only %d submissions failed", unknown, failures)
	}
	if len(found)-unknown != len(held) {
		return fmt.Errorf("%d held jobs were accepted, and %d of them are in the queue", len(held), len(found)-unknown)
	}
	return nil
}

// killAtRandom kills the controller up to so many times, each time after it is
// up again, until stop is closed. It lets it live for more than a second: a
// daemon that often dies sooner ends the cluster, as one that cannot start.
func killAtRandom(cluster string, kills int, stop chan struct{}) (killed int) {
	for killed < kills {
		select {
		case <-stop:
			return killed
		case <-time.After(1600*time.Millisecond + rand.N(1200*time.Millisecond)):
		}
		if pid, err := daemonPID(cluster, "gctld"); err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	<-stop
	return killed
}

// ranOnce waits until every accepted job has left its line, and fails when one
// left two. Of the submissions that failed some may have been accepted without
// the client's hearing of it; more than those must not have run.
func ranOnce(path string, accepted map[string]bool, failures int) error {
	const patience = 2 * time.Minute // without any progress
	best, deadline := -1, time.Now().Add(patience)
	for {
		text, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		done, unknown, err := countRuns(strings.Fields(string(text)), accepted)
		if err != nil {
			return err
		}
		if unknown > failures {
			return fmt.Errorf("%d jobs ran that no gsubmit printed, but only %d submissions failed", unknown, failures)
		}
		if done == len(accepted) {
			return nil
		}
		if done > best {
			best, deadline = done, time.Now().Add(patience)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("only %d of %d accepted jobs have run, and no more for %v", done, len(accepted), patience)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// countRuns counts the accepted jobs that ran and the others that did.
func countRuns(lines []string, accepted map[string]bool) (done, unknown int, err error) {
	seen := map[string]bool{}
	for _, id := range lines {
		switch {
		case seen[id]:
			return 0, 0, fmt.Errorf("job %s ran twice", id)
		case accepted[id]:
			done++
		default:
			unknown++
		}
		seen[id] = true
	}
	return done, unknown, nil
}
