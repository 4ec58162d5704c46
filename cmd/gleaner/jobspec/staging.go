package jobspec

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file has the options by which files come to a job before it has its GPUs, and its
// results go when it has given them back.

const (
	optStageIn  = "stage-in"
	optStageOut = "stage-out"
)

// stagingOptions are those of jobs of all kinds.
func stagingOptions() []option.Option {
	return []option.Option{
		{Long: optStageIn, Argument: "source:target", InScript: true, Help: "copy this to the job's node before it has its GPUs; may be given more than once, and needs --tmp. The source is http://, https:// or s3:// with a bucket and a key, a path as the job sees it, or here: and a file of this host, which gsubmit copies there; behind #sha256= may stand what its SHA-256 has to be. The target is a path in the job"},
		{Long: optStageOut, Argument: "source:target", InScript: true, Help: "copy this away when the job is over, however it ended, and has given back its GPUs; may be given more than once, and needs --tmp. The source is a path in the job, the target http://, https:// (PUT) or s3://, a path as the job sees it, or here: and a path on this host, to which gsubmit --wait fetches it, or gcp within a day"},
	}
}

// allocationStaging are those of a command that asks for nodes and has no script. Files of
// its own host are nearer by gcp: the command runs while the job does.
func allocationStaging() []option.Option {
	table := stagingOptions()
	table[0].Help = "copy this to the job's node before it has its GPUs; may be given more than once, and needs --tmp. The source is http://, https:// or s3:// with a bucket and a key, or a path as the job sees it; behind #sha256= may stand what its SHA-256 has to be. The target is a path in the job"
	table[1].Help = "copy this away when the job is over, and has given back its GPUs, and wait for that; may be given more than once, and needs --tmp. The source is a path in the job, the target http://, https:// (PUT) or s3://, or a path as the job sees it"
	return table
}

// checkAllocationStaging refuses files of this host.
func checkAllocationStaging(staging []*pb.Staging) error {
	for _, s := range staging {
		one := spec.Staging{Source: s.GetSource(), Target: s.GetTarget(), Out: s.GetOut()}
		if _, _, is := one.Here(); !is {
			continue
		}
		long := optStageIn
		if one.Out {
			long = optStageOut
		}
		return option.Fail(1, "Invalid --%s specification: %s is for gsubmit: copy files of this host with gcp while the job runs", long, here)
	}
	return nil
}

// staging reads them.
func (b *Builder) staging() {
	for _, long := range []string{optStageIn, optStageOut} {
		for _, text := range b.Values.All(long) {
			one, err := spec.ParseStaging(text, long == optStageOut)
			if err != nil {
				b.Fail(1, "Invalid --%s specification: %w", long, err)
				return
			}
			if file, is := strings.CutPrefix(one.Source, here); is && !one.Out {
				one.Source = b.fromHere(file)
			}
			if file, is := strings.CutPrefix(one.Target, here); is && one.Out {
				one.Target = b.toHere(one.Source, file)
			}
			b.spec.Staging = append(b.spec.Staging, &pb.Staging{Source: one.Source, Target: one.Target, Out: one.Out})
		}
	}
	if len(b.spec.Staging) > 0 && !b.Values.Given(optTmp) {
		b.Fail(1, "--%s and --%s need --%s: say how much disk the job's files take, all together", optStageIn, optStageOut, optTmp)
	}
}

// here begins a source or a target that is a file of this host.
const here = "here:"

// fromHere is the place of a file of this host that the user can read.
func (b *Builder) fromHere(name string) string {
	path, err := filepath.Abs(name)
	if err != nil {
		b.Fail(1, "--%s %s: %w", optStageIn, name, err)
		return ""
	}
	file, err := os.Open(path)
	if err != nil {
		b.Fail(1, "--%s: %w", optStageIn, err)
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		b.Fail(1, "--%s: %s is no file: make an archive of a directory", optStageIn, path)
	}
	if b.Values.Given(optArray) {
		b.Fail(1, "--%s=%s is for single jobs: put what an array needs on a web server or into a bucket", optStageIn, here)
	}
	return onThisHost(path)
}

// toHere is the place on this host of a result.
func (b *Builder) toHere(source, name string) string {
	path, err := filepath.Abs(name)
	switch {
	case err != nil:
		b.Fail(1, "--%s %s: %w", optStageOut, name, err)
	case name == "":
		b.Fail(1, "--%s: it is SOURCE:%sTARGET", optStageOut, here)
	case !filepath.IsAbs(source):
		b.Fail(1, "--%s: %s: a result that goes to the submitting host is named by a path that begins with /", optStageOut, source)
	case b.Values.Given(optArray):
		b.Fail(1, "--%s with %s is for single jobs: let the results of an array go to a web server or into a bucket", optStageOut, here)
	}
	return onThisHost(path)
}

func onThisHost(path string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return spec.SubmitScheme + "://" + host + path
}
