package main

import (
	"errors"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// niceWithoutNumber is what --nice alone lowers the priority by, and niceLimit
// the most it may be, as in sbatch(1).
const (
	niceWithoutNumber = 100
	niceLimit         = math.MaxInt32 - 2
)

// contradictions are options of which one set of values gives at most one: a
// stronger set that gives one of them silences the others in a weaker one.
var contradictions = [][]string{
	{optRequeue, optNoRequeue},
	{optMem, optMemPerCPU, optMemPerGPU},
	{optCPUsPerTask, optCPUsPerGPU},
	{optGres, optGPUsPerNode},
}

// layered puts the command line over the environment over the script.
func layered(layers ...option.Values) (option.Values, error) {
	merged := option.Values{}
	for _, weaker := range layers {
		remaining := option.Values{}
		for long, values := range weaker {
			remaining[long] = values
		}
		for _, group := range contradictions {
			var inWeaker []string
			silenced := false
			for _, long := range group {
				silenced = silenced || merged.Given(long)
				if weaker.Given(long) {
					inWeaker = append(inWeaker, "--"+long)
				}
			}
			if len(inWeaker) > 1 {
				return nil, option.Fail(1, "%s are mutually exclusive", strings.Join(inWeaker, " and "))
			}
			if silenced {
				for _, long := range group {
					delete(remaining, long)
				}
			}
		}
		merged = merged.Over(remaining)
	}
	return merged, nil
}

// specBuilder turns values into a JobSpec; the first error stands.
type specBuilder struct {
	values option.Values
	spec   *pb.JobSpec
	err    error
}

// buildSpec is what the values ask for. directory is the current one, from
// which a relative --chdir is taken. The script and its environment are the
// caller's to add.
func buildSpec(values option.Values, directory string) (*pb.JobSpec, error) {
	b := &specBuilder{values: values, spec: &pb.JobSpec{}}
	b.words()
	b.files(directory)
	b.sizes()
	b.gpus()
	b.hosts()
	b.placement()
	b.waits()
	b.checkpoint()
	b.behaviour()
	return b.spec, b.err
}

func (b *specBuilder) fail(status int, format string, args ...any) {
	if b.err == nil {
		b.err = option.Fail(status, format, args...)
	}
}

// failEmpty refuses an option whose argument names nothing, as -p "$QUEUE" does
// where QUEUE is not set: the job would run where it was not meant to.
func (b *specBuilder) failEmpty(long string) {
	b.fail(1, "Invalid --%s specification: it is empty", long)
}

func (b *specBuilder) words() {
	v, s := b.values, b.spec
	s.Name, s.Account, s.Comment, s.Wckey = v.Text(optJobName), v.Text(optAccount), v.Text(optComment), v.Text(optWCKey)
	s.Qos = v.Text(optQOS)
	for name := range strings.SplitSeq(v.Text(optPartition), ",") {
		if name = strings.TrimSpace(name); name != "" {
			s.Partitions = append(s.Partitions, name)
		}
	}
	if v.Given(optPartition) && len(s.Partitions) == 0 {
		b.failEmpty(optPartition)
	}
	if v.Given(optLicenses) {
		licenses, err := spec.ParseLicenses(v.Text(optLicenses))
		if err != nil {
			b.fail(1, "Invalid license specification: %w", err)
		}
		s.Licenses = spec.FormatLicenses(licenses)
	}
}

func (b *specBuilder) files(directory string) {
	v, s := b.values, b.spec
	s.StandardOutput, s.StandardError, s.StandardInput = v.Text(optOutput), v.Text(optError), v.Text(optInput)
	s.WorkDirectory = directory
	if given := v.Text(optChdir); given != "" {
		if !filepath.IsAbs(given) {
			given = filepath.Join(directory, given)
		}
		s.WorkDirectory = filepath.Clean(given)
	}
	switch mode := v.Text(optOpenMode); {
	case mode == "":
	case strings.HasPrefix("append", mode):
		s.OpenMode = pb.OpenMode_OPEN_MODE_APPEND
	case strings.HasPrefix("truncate", mode):
		s.OpenMode = pb.OpenMode_OPEN_MODE_TRUNCATE
	default:
		b.fail(255, "Invalid --open-mode specification: %q: type append or truncate", mode)
	}
}

func (b *specBuilder) sizes() {
	v, s := b.values, b.spec
	s.MinNodes, s.MaxNodes = b.nodeCount()
	s.Tasks = b.count(optNtasks)
	s.TasksPerNode = b.count(optNtasksPerNode)
	s.CpusPerTask = b.count(optCPUsPerTask)
	s.MemoryPerNodeBytes = b.size(optMem)
	s.MemoryPerCpuBytes = b.size(optMemPerCPU)
	if v.Given(optTime) {
		limit, err := spec.ParseTime(v.Text(optTime))
		if err != nil {
			b.fail(255, "Invalid --time specification: %w", err)
		}
		s.TimeLimitS = limit
	}
	if v.Given(optArray) {
		array, err := spec.ParseArray(v.Text(optArray))
		if err != nil {
			b.fail(1, "Invalid job array specification: %w", err)
		}
		s.Array = array
	}
	_ = b.count(optWaitAllNodes)
}

// count reads a positive number; 0 if the option was not given.
func (b *specBuilder) count(long string) uint32 {
	if !b.values.Given(long) {
		return 0
	}
	text := b.values.Text(long)
	number, err := strconv.ParseUint(text, 10, 31)
	least := uint64(1)
	if long == optWaitAllNodes {
		least = 0
	}
	switch {
	case errors.Is(err, strconv.ErrRange) && text[0] != '-':
		b.fail(1, "Invalid numeric value %.40q for --%s: it is too large, type a whole number up to %d", text, long, math.MaxInt32)
	case err != nil || number < least:
		b.fail(1, "Invalid numeric value %.40q for --%s: type a whole number, at least %d", text, long, least)
	}
	return uint32(number)
}

// nodeCount reads "4" or "2-4".
func (b *specBuilder) nodeCount() (least, most uint32) {
	if !b.values.Given(optNodes) {
		return 0, 0
	}
	text := b.values.Text(optNodes)
	low, high, isRange := strings.Cut(text, "-")
	first, err := nodesNumber(low)
	last := first
	if err == nil && isRange {
		last, err = nodesNumber(high)
	}
	if err != nil || first < 1 || last < first {
		b.fail(255, "Invalid node count: %q: type a number of nodes, or the least and the most as in 2-4", text)
	}
	return uint32(first), uint32(last)
}

// nodesNumber reads a number, or one of thousands or millions: "2k", "1m", in
// steps of 1,024 as in sbatch(1).
func nodesNumber(text string) (uint64, error) {
	shift := 0
	switch {
	case strings.HasSuffix(text, "k"), strings.HasSuffix(text, "K"):
		shift = 10
	case strings.HasSuffix(text, "m"), strings.HasSuffix(text, "M"):
		shift = 20
	}
	if shift > 0 {
		text = text[:len(text)-1]
	}
	number, err := strconv.ParseUint(text, 10, 31-shift)
	return number << shift, err
}

func (b *specBuilder) size(long string) uint64 {
	if !b.values.Given(long) {
		return 0
	}
	size, err := spec.ParseSize(b.values.Text(long), 1<<20)
	switch {
	case err != nil:
		b.fail(255, "Invalid --%s specification: %w", long, err)
	case size == 0 && long == optMem:
		b.spec.AllMemory = true
	case size == 0:
		b.fail(1, "--%s=0 names no amount: say how much, or ask for all memory of the nodes with --mem=0", long)
	}
	return size
}

func (b *specBuilder) gpus() {
	for _, kind := range []struct {
		long  string
		scope pb.GpuScope
		parse func(string, pb.GpuScope) ([]*pb.GpuRequest, error)
	}{
		{optGPUs, pb.GpuScope_GPU_SCOPE_JOB, spec.ParseGPUs},
		{optGPUsPerNode, pb.GpuScope_GPU_SCOPE_NODE, spec.ParseGPUs},
		{optGPUsPerTask, pb.GpuScope_GPU_SCOPE_TASK, spec.ParseGPUs},
		{optGres, pb.GpuScope_GPU_SCOPE_NODE, spec.ParseGres},
	} {
		if !b.values.Given(kind.long) {
			continue
		}
		requests, err := kind.parse(b.values.Text(kind.long), kind.scope)
		if err != nil {
			b.fail(1, "Invalid --%s specification: %w", kind.long, err)
		}
		b.spec.Gpus = append(b.spec.Gpus, requests...)
	}
}

func (b *specBuilder) hosts() {
	for _, list := range []struct {
		long  string
		field *string
	}{{optNodelist, &b.spec.NodeList}, {optExclude, &b.spec.ExcludeNodes}} {
		if !b.values.Given(list.long) {
			continue
		}
		*list.field = b.values.Text(list.long)
		names, err := spec.ParseHostList(*list.field)
		switch {
		case err != nil:
			b.fail(1, "Invalid --%s specification: %w", list.long, err)
		case len(names) == 0 && list.long == optNodelist:
			b.failEmpty(list.long)
		}
	}
}

func (b *specBuilder) behaviour() {
	v, s := b.values, b.spec
	s.Hold = v.Given(optHold)
	s.Requeue = !v.Given(optNoRequeue)
	s.ExportOption = v.Text(optExport)
	if v.Given(optNice) {
		adjustment := int64(niceWithoutNumber)
		if text := v.Text(optNice); text != "" {
			var err error
			adjustment, err = strconv.ParseInt(text, 10, 32)
			if err != nil || adjustment > niceLimit || adjustment < -niceLimit {
				b.fail(1, "Invalid --nice value %q: type a whole number between -%d and %d", text, niceLimit, niceLimit)
			}
		}
		s.Nice = int32(adjustment)
	}
	switch network := v.Text(optNetwork); network {
	case "":
	case "host":
		s.Network = pb.Network_NETWORK_HOST
	case "private":
		s.Network = pb.Network_NETWORK_PRIVATE
	default:
		b.fail(1, "Invalid --network specification: %q: type host or private", network)
	}
}
