package jobspec

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

// NiceWithoutNumber is what --nice alone lowers the priority by, and NiceLimit
// the most it may be, as in sbatch(1).
const (
	NiceWithoutNumber = 100
	NiceLimit         = math.MaxInt32 - 2
)

// contradictions are options of which one set of values gives at most one: a
// stronger set that gives one of them silences the others in a weaker one.
var contradictions = [][]string{
	{optRequeue, optNoRequeue},
	{optEntrypoint, optNoEntrypoint},
	{optMountHome, optNoMountHome},
	{OptMem, OptMemPerCPU, optMemPerGPU},
	{OptCPUsPerTask, optCPUsPerGPU},
	{OptGres, OptGPUsPerNode},
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

// Builder turns values into a JobSpec; it keeps the first error.
type Builder struct {
	Values option.Values
	spec   *pb.JobSpec
	Err    error
}

// buildSpec is what the values ask for. directory is the current one, from
// which a relative --chdir is taken. The script and its environment are the
// caller's to add.
func buildSpec(values option.Values, directory string) (*pb.JobSpec, error) {
	b := &Builder{Values: values, spec: &pb.JobSpec{}}
	b.words()
	b.mail()
	b.files(directory)
	b.sizes()
	b.gpus()
	b.hosts()
	b.placement()
	b.waits()
	b.checkpoint()
	b.container(directory)
	b.staging()
	b.behaviour()
	return b.spec, b.Err
}

// Fail keeps the first error.
func (b *Builder) Fail(status int, format string, args ...any) {
	if b.Err == nil {
		b.Err = option.Fail(status, format, args...)
	}
}

// failEmpty refuses an option whose argument names nothing, as -p "$QUEUE" does
// where QUEUE is not set: the job would run where it was not meant to.
func (b *Builder) failEmpty(long string) {
	b.Fail(1, "Invalid --%s specification: it is empty", long)
}

func (b *Builder) words() {
	v, s := b.Values, b.spec
	s.Name, s.Account, s.Comment, s.Wckey = v.Text(OptJobName), v.Text(OptAccount), v.Text(OptComment), v.Text(OptWCKey)
	s.Qos = v.Text(optQOS)
	for name := range strings.SplitSeq(v.Text(OptPartition), ",") {
		if name = strings.TrimSpace(name); name != "" {
			s.Partitions = append(s.Partitions, name)
		}
	}
	if v.Given(OptPartition) && len(s.Partitions) == 0 {
		b.failEmpty(OptPartition)
	}
	s.Reservations = strings.FieldsFunc(v.Text(optReservation), func(r rune) bool { return r == ',' })
	if v.Given(optReservation) && len(s.Reservations) == 0 {
		b.failEmpty(optReservation)
	}
	if v.Given(optLicenses) {
		licenses, err := spec.ParseLicenses(v.Text(optLicenses))
		if err != nil {
			b.Fail(1, "Invalid license specification: %w", err)
		}
		s.Licenses = spec.FormatLicenses(licenses)
	}
}

// mail reads of what mail is sent, and to whom.
func (b *Builder) mail() {
	if b.Values.Given(optMailType) {
		types, err := spec.ParseMailTypes(b.Values.Text(optMailType))
		if err != nil {
			b.Fail(255, "Invalid --%s specification: %w", optMailType, err)
		}
		b.spec.MailTypes = uint32(types)
	}
	if b.Values.Text(optMailUser) != "" {
		users, err := spec.ParseMailUsers(b.Values.Text(optMailUser))
		if err != nil {
			b.Fail(1, "Invalid --%s specification: %w", optMailUser, err)
		}
		b.spec.MailUser = strings.Join(users, ",")
	}
}

func (b *Builder) files(directory string) {
	v, s := b.Values, b.spec
	s.StandardOutput, s.StandardError, s.StandardInput = v.Text(OptOutput), v.Text(OptError), v.Text(OptInput)
	s.WorkDirectory = directory
	if given := v.Text(OptChdir); given != "" {
		if !filepath.IsAbs(given) {
			given = filepath.Join(directory, given)
		}
		s.WorkDirectory = filepath.Clean(given)
	}
	switch mode := v.Text(OptOpenMode); {
	case mode == "":
	case strings.HasPrefix("append", mode):
		s.OpenMode = pb.OpenMode_OPEN_MODE_APPEND
	case strings.HasPrefix("truncate", mode):
		s.OpenMode = pb.OpenMode_OPEN_MODE_TRUNCATE
	default:
		b.Fail(255, "Invalid --open-mode specification: %q: type append or truncate", mode)
	}
}

func (b *Builder) sizes() {
	v, s := b.Values, b.spec
	s.MinNodes, s.MaxNodes = b.NodeCount()
	s.Tasks = b.Count(OptNtasks)
	s.TasksPerNode = b.Count(OptNtasksPerNode)
	s.CpusPerTask = b.Count(OptCPUsPerTask)
	s.MemoryPerNodeBytes = b.size(OptMem)
	s.MemoryPerCpuBytes = b.size(OptMemPerCPU)
	s.TmpPerNodeBytes = b.size(optTmp)
	s.TimeLimitS = b.limit(OptTime)
	s.TimeMinS = b.limit(optTimeMin)
	if v.Given(optArray) {
		array, err := spec.ParseArray(v.Text(optArray))
		if err != nil {
			b.Fail(1, "Batch job submission failed: Invalid job array specification: %w", err)
		}
		s.Array = array
	}
	switch value := v.Text(optWaitAllNodes); value {
	case "", "0", "1": // all nodes of a job start together
	default:
		b.Fail(1, "Invalid numeric value %.40q for --%s: type 0 or 1", value, optWaitAllNodes)
	}
}

// limit reads a time limit; 0 if the option was not given.
func (b *Builder) limit(long string) uint32 {
	if !b.Values.Given(long) {
		return 0
	}
	limit, err := spec.ParseTime(b.Values.Text(long))
	if err != nil {
		b.Fail(255, "Invalid --%s specification: %w", long, err)
	}
	return limit
}

// Count reads a positive number; 0 if the option was not given.
func (b *Builder) Count(long string) uint32 {
	if !b.Values.Given(long) {
		return 0
	}
	text := b.Values.Text(long)
	number, err := strconv.ParseUint(text, 10, 31)
	const least = 1
	switch {
	case errors.Is(err, strconv.ErrRange) && text[0] != '-':
		b.Fail(1, "Invalid numeric value %.40q for --%s: it is too large, type a whole number up to %d", text, long, math.MaxInt32)
	case err != nil || number < least:
		b.Fail(1, "Invalid numeric value %.40q for --%s: type a whole number, at least %d", text, long, least)
	}
	return uint32(number)
}

// NodeCount reads "4" or "2-4".
func (b *Builder) NodeCount() (least, most uint32) {
	if !b.Values.Given(OptNodes) {
		return 0, 0
	}
	text := b.Values.Text(OptNodes)
	low, high, isRange := strings.Cut(text, "-")
	first, err := nodesNumber(low)
	last := first
	if err == nil && isRange {
		last, err = nodesNumber(high)
	}
	if err != nil || first < 1 || last < first {
		b.Fail(255, "Invalid node count: %q: type a number of nodes, or the least and the most as in 2-4", text)
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

func (b *Builder) size(long string) uint64 {
	if !b.Values.Given(long) {
		return 0
	}
	size, err := spec.ParseSize(b.Values.Text(long), 1<<20)
	switch {
	case err != nil:
		b.Fail(255, "Invalid --%s specification: %w", long, err)
	case size == 0 && long == OptMem:
		b.spec.AllMemory = true
	case size == 0 && long == optTmp: // as in Slurm: nothing is asked for
	case size == 0:
		b.Fail(1, "--%s=0 names no amount: say how much, or ask for all memory of the nodes with --mem=0", long)
	}
	return size
}

func (b *Builder) gpus() {
	for _, kind := range []struct {
		long  string
		scope pb.GpuScope
		parse func(string, pb.GpuScope) ([]*pb.GpuRequest, error)
	}{
		{OptGPUs, pb.GpuScope_GPU_SCOPE_JOB, spec.ParseGPUs},
		{OptGPUsPerNode, pb.GpuScope_GPU_SCOPE_NODE, spec.ParseGPUs},
		{OptGPUsPerTask, pb.GpuScope_GPU_SCOPE_TASK, spec.ParseGPUs},
		{OptGres, pb.GpuScope_GPU_SCOPE_NODE, spec.ParseGres},
	} {
		if !b.Values.Given(kind.long) {
			continue
		}
		requests, err := kind.parse(b.Values.Text(kind.long), kind.scope)
		if err != nil {
			what := "--" + kind.long
			if kind.long == OptGres {
				what = "generic resource (gres)"
			}
			b.Fail(1, "Invalid %s specification: %w", what, err)
		}
		b.spec.Gpus = append(b.spec.Gpus, requests...)
	}
}

func (b *Builder) hosts() {
	for _, list := range []struct {
		long  string
		field *string
	}{{OptNodelist, &b.spec.NodeList}, {OptExclude, &b.spec.ExcludeNodes}} {
		if !b.Values.Given(list.long) {
			continue
		}
		*list.field = b.Values.Text(list.long)
		names, err := spec.ParseHostList(*list.field)
		switch {
		case err != nil:
			b.Fail(1, "Invalid --%s specification: %w", list.long, err)
		case len(names) == 0 && list.long == OptNodelist:
			b.failEmpty(list.long)
		}
	}
}

func (b *Builder) behaviour() {
	v, s := b.Values, b.spec
	s.Hold = v.Given(OptHold)
	s.Requeue = !v.Given(optNoRequeue)
	s.ExportOption = v.Text(OptExport)
	if v.Given(OptNice) {
		adjustment := int64(NiceWithoutNumber)
		if text := v.Text(OptNice); text != "" {
			var err error
			adjustment, err = strconv.ParseInt(text, 10, 32)
			if err != nil || adjustment > NiceLimit || adjustment < -NiceLimit {
				b.Fail(1, "Invalid --nice value %q: type a whole number between -%d and %d", text, NiceLimit, NiceLimit)
			}
		}
		s.Nice = int32(adjustment)
	}
	if text := v.Text(OptNetwork); text != "" {
		var err error
		if s.Network, err = NetworkNamed(text); err != nil {
			b.Fail(1, "Invalid --network specification: %q: %w", text, err)
		}
	}
}
