package ctld

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// knownDirectory is the data directory of a controller that was stopped: jobs
// in a snapshot and behind it, some over, some held.
func knownDirectory(t *testing.T) Config {
	t.Helper()
	config := configIn(shortDir(t))
	server := startServer(t, config)
	conn := connectTo(t, server.Addresses()[0], "")
	node := newFakeNode(t, "n1", 0)
	disconnect := node.connect(conn)
	for i := range 60 {
		id := submit(t, conn, job(func(r *pb.SubmitRequest) {
			r.Spec.Name = fmt.Sprintf("job-%d", i)
			r.Spec.Script = fmt.Appendf(nil, "#!/bin/sh\n# %s\n", strings.Repeat("script", i))
			r.Spec.Hold = i%2 == 1
		}))
		if i%2 == 0 {
			waitState(t, conn, id, pb.JobState_JOB_STATE_COMPLETED)
		}
		if i == 30 {
			if err := server.cluster.peer.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
	}
	disconnect()
	server.Stop()
	return config
}

// attempt starts gctld as a process on a data directory. It returns the jobs
// it shows, or what it said when it stopped.
func attempt(t *testing.T, config Config) (jobs []*pb.Job, said string) {
	t.Helper()
	var log bytes.Buffer
	command := exec.Command(os.Args[0], "--data-dir", config.DataDir, "--socket", config.Socket, "--log-level", "error")
	command.Env = append(os.Environ(), asMain+"=1")
	command.Stderr = &log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	answered := make(chan []*pb.Job, 1)
	conn, err := dial.Dial([]string{"unix://" + config.Socket}, "")
	if err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	var asking sync.WaitGroup
	asking.Go(func() {
		for ; !over.Load(); time.Sleep(20 * time.Millisecond) {
			if jobs, err := tryList(t, conn, &pb.ListJobsRequest{Filter: all(), WithScript: true}); err == nil {
				answered <- jobs
				return
			}
		}
	})
	defer func() { over.Store(true); _ = conn.Close(); asking.Wait() }()
	select {
	case jobs := <-answered:
		_ = command.Process.Kill()
		<-ended
		return jobs, ""
	case err := <-ended:
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("it ended with %v and said %s", err, log.String())
		}
		return nil, log.String()
	case <-time.After(patience):
		_ = command.Process.Kill()
		t.Fatalf("neither ready nor ended after %v", patience)
	}
	return nil, ""
}

// TestDamagedDirectory flips one bit after another in what a controller has on
// disk, and starts it as a process: it shows exactly the jobs it had, or it
// stops with one line that names the file.
func TestDamagedDirectory(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("GLEANER_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("GLEANER_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	config := knownDirectory(t)
	files := damageable(t, config.DataDir)
	var want []*pb.Job
	shown, stopped := 0, 0
	rounds := prototest.Soak(12, 100)
	for round := range rounds {
		damaged := config
		damaged.DataDir = filepath.Join(shortDir(t), "data")
		if err := os.CopyFS(damaged.DataDir, os.DirFS(config.DataDir)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(damaged.DataDir, 0o700); err != nil {
			t.Fatal(err)
		}
		where, path := "nothing", ""
		if round > 0 {
			file := files[round%len(files)]
			path = filepath.Join(damaged.DataDir, file.path)
			where = flipOne(t, path, random.Int64N(file.bytes), random.UintN(8))
		}
		jobs, said := attempt(t, damaged)
		switch {
		case round == 0 && said != "":
			t.Fatal(said)
		case round == 0:
			want = jobs
		case said == "":
			shown++
			if !sameJobs(jobs, want) {
				t.Errorf("%s: it shows other jobs and says nothing", where)
			}
		default:
			stopped++
			if strings.Count(said, "\n") != 1 || !strings.Contains(said, filepath.Dir(path)) || strings.Contains(said, "goroutine") {
				t.Errorf("%s: %s", where, said)
			}
		}
	}
	t.Logf("%d flips: %d lay where nothing is, %d stopped it", rounds-1, shown, stopped)
	if len(want) != 60 || stopped == 0 {
		t.Errorf("%d jobs, %d stops", len(want), stopped)
	}
}

func sameJobs(got, want []*pb.Job) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if !proto.Equal(got[i], want[i]) {
			return false
		}
	}
	return true
}

// damageable lists the files of a data directory, and how much of each is
// worth a flip: the log file ends in blocks that were taken ahead.
type damageableFile struct {
	path  string
	bytes int64
}

func damageable(t *testing.T, dir string) (files []damageableFile) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "lock" || entry.Name() == "audit.log" { // of which nothing is read
			return err
		}
		if strings.HasPrefix(entry.Name(), historyFile) { // package history tests that
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		files = append(files, damageableFile{relative, int64(len(bytes.TrimRight(text, "\x00")))})
		return err
	})
	if err != nil || len(files) != 4 {
		t.Fatalf("files: %v, %v", files, err)
	}
	return files
}

func flipOne(t *testing.T, path string, offset int64, bit uint) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[offset] ^= 1 << bit
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s byte %d bit %d", filepath.Base(path), offset, bit)
}
