package submit

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// FuzzSubmission: whatever a script, its directives and the environment say,
// it is refused in plain words, or what is sent can be sent and is within the
// limits that a controller sets.
func FuzzSubmission(f *testing.F) {
	for _, words := range []string{
		"-n4 -N2-4 --ntasks-per-node=2 -c2 --mem=1G -t 1-0", "--array=0-4000000:3%5 -o %A_%a.out -e %j -i none", "-w n[1-9] -x n[1-65536]",
		"--gres=gpu:a100:2 -C 'ib&ssd' --exclusive --requeue", "--export=ALL,A=1 --chdir=x -J \"a b\" --comment='\x1b[2J'", "--signal=B:USR1@60 --checkpoint=app --checkpoint-dir=%j --checkpoint-interval=auto", "--nice -p a,b,,c --open-mode=append",
		"-n 99999999999999999999", "--mem-per-cpu=0 --gpus=0", "-N 5-2", "-t 99999999-99:99:99", "--uid=\xff --job-name=\xff", "--array=0-9,1-8,2-7",
	} {
		f.Add("#!/bin/sh\n#SBATCH "+words+"\n", "PATH=/bin\nSLURM_UMASK=0077\nX=\xff")
		f.Add("#!/bin/sh\n#GSUB "+words+"\ntrue\n#SBATCH -n2\n", "GSUBMIT_PARTITION=p\nSBATCH_TIMELIMIT=-5\nLC=\xe9\n=x\nnothing")
	}
	f.Add("", "")
	f.Add("#!/bin/sh\r\n", "A=B")
	f.Add("\x7fELF", "A=B")
	command := Command()
	f.Fuzz(func(t *testing.T, script, environ string) {
		var stderr bytes.Buffer
		inv := &option.Invocation{Context: context.Background(), Command: command, Values: option.Values{},
			Stdin: strings.NewReader(script), Stdout: &stderr, Stderr: &stderr, Environ: strings.Split(environ, "\n")}
		made, err := jobspec.New(inv)
		if err == nil {
			err = client.CheckText(made.Request.ProtoReflect())
		}
		if err != nil {
			text, status := option.Report("gsubmit", err)
			if status < 1 || status > 255 || strings.TrimSpace(text) == "" {
				t.Fatalf("status %d: %q", status, text)
			}
			clienttest.CheckTerminal(t, "a refusal", []byte(text))
			return
		}
		request := made.Request
		data, err := proto.Marshal(request)
		if err != nil {
			t.Fatalf("%q and %q make a request that cannot be sent: %v", script, environ, err)
		}
		if len(data) > spec.MaxMessageBytes && len(script)+len(environ) < spec.MaxMessageBytes/2 {
			t.Fatalf("a request of %d bytes", len(data))
		}
		if array := request.Spec.Array; array != nil {
			if err := spec.CheckArray(array); err != nil {
				t.Fatal(err)
			}
		}
		if err := prototest.Plain(stderr.String()); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzJobWatched: whatever a controller says of the job that is waited for, the
// exit status is one.
func FuzzJobWatched(f *testing.F) {
	for _, job := range clienttest.StubJobs() {
		f.Add(prototest.Marshal(job))
	}
	for _, data := range prototest.Hostile[pb.Job]() {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		job := &pb.Job{}
		if proto.Unmarshal(data, job) != nil {
			return
		}
		watch := &jobWatch{number: job.GetId().GetJob(), live: map[uint32]bool{}}
		if watch.take(job); watch.status < 0 || watch.status > 255 {
			t.Errorf("status %d", watch.status)
		}
	})
}
