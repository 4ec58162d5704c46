package api

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

func goodSpec() *pb.JobSpec {
	return &pb.JobSpec{Name: "j", Script: []byte("#!/bin/sh\n"), WorkDirectory: "/tmp", Environment: []string{"A=1", "B="}}
}

// pinnedImage is one that is accepted.
const pinnedImage = "docker://index.docker.io/library/debian:12@sha256:0000000000000000000000000000000000000000000000000000000000000000"

func TestCheckSpec(t *testing.T) {
	cases := []struct {
		name   string
		change func(*pb.JobSpec)
		want   string // part of the message; "" = accepted
	}{
		{"plain", func(*pb.JobSpec) {}, ""},
		{"empty script", func(s *pb.JobSpec) { s.Script = nil }, "empty"},
		{"only spaces", func(s *pb.JobSpec) { s.Script = []byte(" \n\t\n") }, "whitespace"},
		{"no interpreter", func(s *pb.JobSpec) { s.Script = []byte("echo\n") }, "must start with #!"},
		{"a program", func(s *pb.JobSpec) { s.Script = []byte("#!/bin/sh\n\x00") }, "zero byte"},
		{"DOS line breaks", func(s *pb.JobSpec) { s.Script = []byte("#!/bin/sh\r\n") }, "DOS"},
		{"large script", func(s *pb.JobSpec) { s.Script = append([]byte("#!"), make([]byte, spec.MaxScriptBytes)...) }, "larger"},
		{"relative directory", func(s *pb.JobSpec) { s.WorkDirectory = "tmp" }, "absolute"},
		{"name with a line break", func(s *pb.JobSpec) { s.Name = "a\nb" }, "control"},
		{"long name", func(s *pb.JobSpec) { s.Name = strings.Repeat("x", spec.MaxNameBytes+1) }, "longer"},
		{"variable without =", func(s *pb.JobSpec) { s.Environment = []string{"A"} }, "NAME=VALUE"},
		{"variable without name", func(s *pb.JobSpec) { s.Environment = []string{"=x"} }, "NAME=VALUE"},
		{"large environment", func(s *pb.JobSpec) { s.Environment = []string{"A=" + strings.Repeat("x", spec.MaxEnvironmentBytes)} }, "--export"},
		{"argument with zero byte", func(s *pb.JobSpec) { s.Arguments = []string{"\x00"} }, "zero byte"},
		{"output with line break", func(s *pb.JobSpec) { s.StandardOutput = "a\nb" }, "output file"},
		{"too many tasks", func(s *pb.JobSpec) { s.Tasks = 1 << 31 }, "More processors"},
		{"a relative command", func(s *pb.JobSpec) { s.Command = "train.sh" }, "absolute"},
		{"a command of two lines", func(s *pb.JobSpec) { s.Command = "/a\nb" }, "line break"},
		{"a long command", func(s *pb.JobSpec) { s.Command = "/" + strings.Repeat("a", 5000) }, "4096"},
		{"nodes the wrong way round", func(s *pb.JobSpec) { s.MinNodes, s.MaxNodes = 4, 2 }, "Node count"},
		{"both memories", func(s *pb.JobSpec) { s.MemoryPerNodeBytes, s.MemoryPerCpuBytes = 1, 1 }, "exclude each other"},
		{"bad node list", func(s *pb.JobSpec) { s.NodeList = "n[1-" }, "--nodelist"},
		{"bad array", func(s *pb.JobSpec) { s.Array = &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 3, Last: 1, Step: 1}}} }, "array"},
		{"signal", func(s *pb.JobSpec) { s.Signal = "USR1@60" }, ""},
		{"no signal", func(s *pb.JobSpec) { s.Signal = "B:NOWHERE" }, "--signal"},
		{"begin", func(s *pb.JobSpec) { s.BeginMs = -1 }, "--begin"},
		{"deadline", func(s *pb.JobSpec) { s.DeadlineMs = 1 << 60 }, "--deadline"},
		{"priority", func(s *pb.JobSpec) { s.Priority = proto.Uint32(5) }, "--priority"},
		{"image that is not pinned", func(s *pb.JobSpec) { s.Image = "docker://index.docker.io/library/debian:12" }, "pinned"},
		{"image", func(s *pb.JobSpec) { s.Image = pinnedImage }, ""},
		{"image of no kind", func(s *pb.JobSpec) { s.Image = "/x.img@" + pinnedImage[len(pinnedImage)-71:] }, "oci:DIRECTORY"},
		{"relative layout", func(s *pb.JobSpec) { s.Image = "oci:x@" + pinnedImage[len(pinnedImage)-71:] }, "absolute"},
		{"mounts without image", func(s *pb.JobSpec) { s.Mounts = []*pb.Mount{{Source: "/a", Target: "/b"}} }, "--image"},
		{"mount over the root", func(s *pb.JobSpec) {
			s.Image, s.Mounts = pinnedImage, []*pb.Mount{{Source: "/a", Target: "/"}}
		}, "target"},
		{"two mounts at one place", func(s *pb.JobSpec) {
			s.Image, s.Mounts = pinnedImage, []*pb.Mount{{Source: "/a", Target: "/b"}, {Source: "/c", Target: "/b"}}
		}, "two mounts"},
		{"relative work directory inside", func(s *pb.JobSpec) { s.Image, s.Container = pinnedImage, &pb.ContainerOptions{WorkDirectory: "x"} }, "--container-workdir"},
		{"variable with a value", func(s *pb.JobSpec) {
			s.Image, s.Container = pinnedImage, &pb.ContainerOptions{Environment: []string{"A=1"}}
		}, "--container-env"},
		{"mounts", func(s *pb.JobSpec) { s.Mounts = []*pb.Mount{{}} }, "mounts"},
		{"checkpoint", func(s *pb.JobSpec) { s.Checkpoint = &pb.CheckpointPolicy{Mode: "app", Directory: "/scratch/%j"} }, ""},
		{"unknown checkpoint", func(s *pb.JobSpec) { s.Checkpoint = &pb.CheckpointPolicy{Mode: "dmtcp"} }, "--checkpoint=dmtcp"},
		{"checkpoints of none", func(s *pb.JobSpec) { s.Checkpoint = &pb.CheckpointPolicy{Mode: "none", IntervalS: 60} }, "exclude each other"},
		{"checkpoint directory", func(s *pb.JobSpec) { s.Checkpoint = &pb.CheckpointPolicy{Directory: "a\nb"} }, "--checkpoint-dir"},
		{"GPUs of no scope", func(s *pb.JobSpec) { s.Gpus = []*pb.GpuRequest{{Scope: 9, Count: 1}} }, "GPU scope 9"},
		{"CPUs for a GPU", func(s *pb.JobSpec) { s.CpusPerGpu = 1 << 20 }, "CPUs for one GPU"},
		{"tasks for a GPU", func(s *pb.JobSpec) { s.TasksPerGpu = 1 << 30 }, "More processors"},
		{"memory for a GPU", func(s *pb.JobSpec) { s.MemoryPerGpuBytes = 1 << 63 }, "Memory specification"},
		{"switches", func(s *pb.JobSpec) { s.Switches = 1 << 20 }, "switches"},
		{"shares", func(s *pb.JobSpec) {
			s.Gpus = []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_JOB, Count: 1, SharesPerDevice: 2}}
		}, "shares"},
		{"unknown network", func(s *pb.JobSpec) { s.Network = 9 }, "network"},
		{"umask", func(s *pb.JobSpec) { s.Umask = 0o1000 }, "umask"},
		{"negative nice", func(s *pb.JobSpec) { s.Nice = -1 }, "--nice"},
		{"positive nice", func(s *pb.JobSpec) { s.Nice = 10 }, ""},
	}
	for _, c := range cases {
		job := goodSpec()
		c.change(job)
		err := checkSpec(job, false)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if err := checkSpec(nil, true); err == nil {
		t.Error("no job at all was accepted")
	}
	raised := goodSpec()
	raised.Nice = -1
	if err := checkSpec(raised, true); err != nil {
		t.Errorf("an administrator may not raise a job: %v", err)
	}
}

func TestParseRun(t *testing.T) {
	for text, want := range map[string]bool{"1.2": true, "0.1": false, "1": false, "1.": false, ".1": false, "a.b": false, "4294967296.1": false, "1.2.3": false} {
		if _, _, ok := parseRun(text); ok != want {
			t.Errorf("parseRun(%q): %v", text, ok)
		}
	}
}

func FuzzParseRun(f *testing.F) {
	for _, seed := range []string{"1.2", "", ".", "1..2", "-1.0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if job, _, ok := parseRun(text); ok && job == 0 {
			t.Errorf("parseRun(%q) is job 0", text)
		}
	})
}

func TestRequestID(t *testing.T) {
	for text, works := range map[string]bool{
		"": true, "6ba7b810-9dad-11d1-80b4-00c04fd430c8": true,
		"x": false, "{6ba7b810-9dad-11d1-80b4-00c04fd430c8}": false, "6ba7b8109dad11d180b400c04fd430c8": false,
	} {
		if _, err := requestID(text); (err == nil) != works {
			t.Errorf("requestID(%q): %v", text, err)
		}
	}
}
