package jobspec

import (
	"strings"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// An interpreter that is not here is worth only a warning.
func TestSubmitWarnsOfTheInterpreter(t *testing.T) {
	for first, want := range map[string]string{
		"#!/bin/sh -e":     "",
		"#! /bin/sh":       "",
		"#!/nosuch/python": `the interpreter "/nosuch/python" does not exist on this machine`,
		"#!bash":           `the interpreter "bash" is looked for in the job's directory`,
		"#!/etc/passwd":    `"/etc/passwd", which is to interpret the script, is not a program on this machine`,
		"#!/etc":           `"/etc", which is to interpret the script, is not a program on this machine`,
	} {
		if got := interpreterWarning([]byte(first + "\ntrue\n")); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %q, want %q", first, got, want)
		}
	}
}

func TestFitNodesToTasks(t *testing.T) {
	job := &pb.JobSpec{Tasks: 2, MinNodes: 4, MaxNodes: 8}
	if warnings := fitNodesToTasks(job); len(warnings) != 1 || job.MinNodes != 2 || job.MaxNodes != 2 {
		t.Errorf("%v %v", warnings, job)
	}
}

func TestCommandIsAbsolute(t *testing.T) {
	for path, want := range map[string]string{"": "", "/a/b.sh": "/a/b.sh", "b.sh": "/here/b.sh", "../b.sh": "/b.sh"} {
		if got := absolute("/here", path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}
