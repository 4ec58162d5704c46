package state

import (
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// SubmitJob accepts a job, or an array as one record. The number is in
// Result.JobID. Make one with SubmitFromSpec.
type SubmitJob struct {
	Request     Request `cbor:"1,keyasint"` // its digests are filled in by Apply
	Owner       Owner   `cbor:"2,keyasint"`
	Script      []byte  `cbor:"3,keyasint,omitempty"`
	Environment []byte  `cbor:"4,keyasint,omitempty"` // NAME=VALUE, each followed by a zero byte
}

func (SubmitJob) kind() Kind { return KindSubmitJob }

func (c SubmitJob) apply(s *State, result *Result) {
	request := c.Request // a copy: the defaults are filled in here
	if result.Refused = s.checkSubmit(&c, &request); result.Refused != nil {
		return
	}
	s.policy.fillDefaults(&request)
	shared, digest, err := s.internRequest(&request, &c)
	if err != nil {
		result.Refused = refuse(Invalid, "%v", err)
		return
	}
	job := &Job{
		ID:            s.nextJob,
		RequestDigest: digest,
		Request:       shared,
		Phase:         Waiting,
		SubmitMS:      s.timeMS,
		EligibleMS:    s.timeMS,
	}
	if shared.IsArray() {
		job.Array = job.ID
		job.Tasks = shared.ArrayTasks
	}
	if shared.Hold {
		job.Held = sched.HeldByUser
	}
	s.nextJob++
	s.putJob(job)
	result.JobID = job.ID
}

// checkSubmit refuses what can be refused before anything is stored, and puts
// the array's tasks into normal form.
func (s *State) checkSubmit(c *SubmitJob, request *Request) *Refusal {
	if s.nextJob > MaxJobID {
		return refuse(Exhausted, "no job numbers are left: this cluster has used all %d", uint32(MaxJobID))
	}
	records := s.waiting.Len() + s.active.Len()
	if records >= int(s.policy.MaxJobCount) {
		return refuse(Exhausted, "the queue is full: %d jobs wait or run, as many as max_job_count allows; submit again later", records)
	}
	if err := checkRequestSizes(c); err != nil {
		return refuse(Invalid, "%v", err)
	}
	if refused := s.policy.choosePartitions(request, c.Owner.UID); refused != nil {
		return refused
	}
	return s.checkArray(request)
}

// ShapeOf is what the scheduler would see of a submission under this policy.
// The error is what applying it would say of its partitions and its request;
// it wraps a *Refusal.
func (p *Policy) ShapeOf(c *SubmitJob) (*Shape, error) {
	request := c.Request
	if refused := p.choosePartitions(&request, c.Owner.UID); refused != nil {
		return nil, refused
	}
	p.fillDefaults(&request)
	shape, err := shapeOf(&request, &c.Owner)
	if err != nil {
		return nil, refuse(Invalid, "%v", err)
	}
	return shape, nil
}

// choosePartitions checks the partitions asked for, or takes the default one.
func (p *Policy) choosePartitions(request *Request, uid uint32) *Refusal {
	if len(request.Partitions) == 0 {
		partition := p.defaultPartition()
		if partition == nil {
			return refuse(Invalid, "No partition specified or system default partition: name one with --partition")
		}
		request.Partitions = []string{partition.Name}
	}
	rootAllowed := false
	seen := map[string]bool{}
	for _, name := range request.Partitions {
		partition, known := p.Partition(name)
		if !known {
			return refuse(Invalid, "invalid partition specified: %s\n%s", name, p.partitionNames())
		}
		if seen[name] {
			return refuse(Invalid, "partition %s is named twice: name it once", name)
		}
		seen[name] = true
		rootAllowed = rootAllowed || partition.AllowRootJobs
	}
	if uid == 0 && !rootAllowed {
		return refuse(Denied, "jobs of root are not allowed in partition %s: submit as a user with --uid=USER, or set allow_root_jobs in the partition", strings.Join(request.Partitions, ","))
	}
	return nil
}

func (s *State) checkArray(request *Request) *Refusal {
	if !request.IsArray() {
		request.MaxRunning = 0
		return nil
	}
	ranges := toRanges(request.ArrayTasks)
	if err := spec.CheckArray(arraySpec(request)); err != nil {
		return refuse(Invalid, "%v", err)
	}
	request.ArrayTasks = fromRanges(spec.NormalizeRanges(ranges))
	last := request.ArrayTasks[len(request.ArrayTasks)-1].Last
	if last >= s.policy.MaxArraySize {
		return refuse(Invalid, "Invalid job array specification: task %d is too high, the highest is %d (max_array_size)", last, s.policy.MaxArraySize-1)
	}
	return nil
}

// fillDefaults takes what was not asked for from the first partition, as
// Slurm does.
func (p *Policy) fillDefaults(request *Request) {
	partition, _ := p.Partition(request.Partitions[0])
	if request.TimeLimitS == 0 {
		request.TimeLimitS = partition.DefaultTimeS
		if request.TimeLimitS == 0 {
			request.TimeLimitS = partition.MaxTimeS
		}
	}
	if request.MemoryPerNode == 0 && request.MemoryPerCPU == 0 {
		request.MemoryPerCPU = partition.DefaultMemoryPerCPU
	}
}

// checkRequestSizes bounds everything a submitter may make long.
func checkRequestSizes(c *SubmitJob) error {
	r := &c.Request
	names := []string{r.Name, r.Account, r.QOS, r.Comment, r.WCKey, r.SubmitHost, r.Constraint, c.Owner.User, c.Owner.Group, c.Owner.UIDDomain}
	for _, name := range names {
		if len(name) > spec.MaxNameBytes {
			return fmt.Errorf("%q… is longer than %d bytes: shorten it", clip(name, 32), spec.MaxNameBytes)
		}
	}
	for _, path := range []string{r.Command, r.WorkDirectory, r.StandardOutput, r.StandardError, r.StandardInput, c.Owner.Home, c.Owner.Shell} {
		if len(path) > spec.MaxPathBytes {
			return fmt.Errorf("path %q… is longer than %d bytes", clip(path, 32), spec.MaxPathBytes)
		}
	}
	argumentBytes := len(r.ExportOption)
	for _, argument := range r.Arguments {
		argumentBytes += len(argument)
	}
	switch {
	case len(c.Script) > spec.MaxScriptBytes:
		return fmt.Errorf("script of %d bytes is larger than %d: put the data into a file beside it", len(c.Script), spec.MaxScriptBytes)
	case len(c.Environment) > spec.MaxEnvironmentBytes:
		return fmt.Errorf("environment of %d bytes is larger than %d: pass less with --export", len(c.Environment), spec.MaxEnvironmentBytes)
	case len(r.Arguments) > spec.MaxArguments || argumentBytes > spec.MaxArgumentBytes:
		return fmt.Errorf("arguments are longer than %d bytes or more than %d: pass them in a file", spec.MaxArgumentBytes, spec.MaxArguments)
	case len(r.Partitions) > MaxPartitions || len(r.GPUs) > MaxDevicesPerNode || len(c.Owner.Groups) > MaxListEntries:
		return fmt.Errorf("too many partitions, GPU requests or groups")
	}
	return nil
}
