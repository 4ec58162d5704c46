package main

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// TestControllerThatHangs: one that can be reached and never answers is given
// up in bounded time, and said to be that.
func TestControllerThatHangs(t *testing.T) {
	clienttest.Impatient(t)
	before, beforePing := client.AnswerTime, client.PingTime
	client.AnswerTime, client.PingTime = time.Second, time.Second
	t.Cleanup(func() { client.AnswerTime, client.PingTime = before, beforePing })
	target := hangingController(t)
	for line, want := range map[string]string{
		"gqueue":                         "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\ngqueue: unable to contact a controller at " + target + " (it does not answer: nothing came for TIME)\n",
		"ginfo":                          "slurm_load_partitions: Unable to contact slurm controller (connect failure)\n",
		"gcontrol show job":              "(it does not answer: nothing came for TIME)\n",
		"gcontrol show config":           "(it does not answer: nothing came for TIME)\n",
		"gcontrol ping":                  "gcontrol: " + target + ": it does not answer: nothing came for TIME\n",
		"gcontrol hold 1":                "(it does not answer: nothing came for TIME)\n",
		"gcancel 1":                      "(it does not answer: nothing came for TIME)\n",
		"gsubmit --wrap=true":            "the job may have been accepted",
		"gcontrol update node n1 resume": "",
	} {
		got := command(t, target, "", nil, strings.Fields(line)...)
		said := elapsed.ReplaceAllString(got.Stderr, "nothing came for TIME") // how long it took is the machine's
		if got.Status != 1 || !strings.Contains(said, want) {
			t.Errorf("%s: %+v, want %q", line, got, want)
		}
	}
}

var elapsed = regexp.MustCompile(`nothing came for [0-9.]+m?s`)

// hangingController greets as a server of HTTP/2 does and says nothing else.
func hangingController(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var connections []net.Conn
		for {
			connection, err := listener.Accept()
			if err != nil {
				break
			}
			_, _ = connection.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}) // an empty SETTINGS frame, RFC 9113
			connections = append(connections, connection)
		}
		for _, connection := range connections {
			_ = connection.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return "unix://" + path
}

func TestReaderGone(t *testing.T) {
	clienttest.FixTime(t)
	clienttest.ServeStub(t, &clienttest.StubController{List: clienttest.ManyJobs(30_000, -1, nil), Nodes: clienttest.StubNodes(), Partitions: clienttest.StubPartitions()})
	for _, args := range [][]string{{"gqueue"}, {"gqueue", "-i1"}, {"gqueue", "--json"}, {"ginfo"}, {"ginfo", "--json"}} {
		ctx, cancel := context.WithTimeout(t.Context(), prototest.Patience)
		if status := stage.Dispatch(ctx, args, option.Streams{Stdout: brokenPipe{}, Stderr: io.Discard}); status == 0 || ctx.Err() != nil {
			t.Errorf("%v: status %d, %v", args, status, ctx.Err())
		}
		cancel()
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
