package state

import (
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// SubmitJob accepts a job, or an array as one record. The number is in
// Result.JobID. Make one with SubmitFromSpec.
type SubmitJob struct {
	Spec        Spec   `cbor:"1,keyasint"`
	Owner       Owner  `cbor:"2,keyasint"`
	Script      []byte `cbor:"3,keyasint,omitempty"`
	Environment []byte `cbor:"4,keyasint,omitempty"` // NAME=VALUE, each followed by a zero byte
	Own         Own    `cbor:"5,keyasint"`
	// In place of a script or an environment that a job in the state has
	// already: its digest. State.Abridge fills them in.
	KnownScript      Digest `cbor:"6,keyasint,omitzero"`
	KnownEnvironment Digest `cbor:"7,keyasint,omitzero"`

	Dependencies  Dependencies `cbor:"12,keyasint,omitzero"`
	BeginMS       int64        `cbor:"13,keyasint,omitempty"`
	DeadlineMS    int64        `cbor:"14,keyasint,omitempty"`
	FixedPriority uint32       `cbor:"15,keyasint,omitempty"`

	// SeesAll: private_data hides no jobs from the submitter.
	SeesAll bool `cbor:"16,keyasint,omitempty"`
}

func (SubmitJob) kind() Kind { return KindSubmitJob }

func (c SubmitJob) apply(s *State, result *Result) {
	given := c.Spec // a copy: the defaults are filled in here
	if result.Refused = s.checkSubmit(&c, &given); result.Refused != nil {
		return
	}
	association, refused := s.charge(&given, &c.Owner)
	if result.Refused = refused; refused != nil {
		return
	}
	if result.Refused = s.checkJobReservations(given.Reservations, c.Owner.User, association); result.Refused != nil {
		return
	}
	timeGiven := given.TimeLimitS != 0
	fillDefaults(s.policy, &given)
	if result.Refused = s.checkLimits(&given, &c.Owner, association, timeGiven); result.Refused != nil {
		return
	}
	if result.Refused = checkTimeMin(&given); result.Refused != nil {
		return
	}
	spec, err := s.internSpec(&given, &c.Owner)
	if err != nil {
		result.Refused = refuse(Invalid, "%v", err)
		return
	}
	job := &Job{
		ID:          s.nextJob,
		Spec:        spec,
		own:         s.internOwn(&c.Own),
		Phase:       Waiting,
		SubmitMS:    s.timeMS,
		EligibleMS:  s.timeMS,
		Association: association,
	}
	if spec.IsArray() {
		job.Array = job.ID
		job.Tasks = spec.ArrayTasks
	}
	job.Staged = spec.firstStage()
	if spec.Hold {
		job.Held = sched.HeldByUser
	}
	if result.Refused = s.takeWaits(&c, job); result.Refused != nil {
		s.dropUnused(spec)
		return
	}
	job.Script = s.internBlob(c.Script, c.KnownScript)
	job.Environment = s.internBlob(c.Environment, c.KnownEnvironment)
	s.nextJob++
	s.putJob(job)
	result.JobID = job.ID
	if job.Dependencies.has(afterCorr) {
		s.decideTasks(job.ID)
	}
}

// checkSubmit refuses what can be refused before anything is stored, and puts
// the array's tasks into normal form.
func (s *State) checkSubmit(c *SubmitJob, spec *Spec) *Refusal {
	if s.nextJob > bounds.MaxJobID {
		return refuse(Exhausted, "no job numbers are left: this cluster has used all %d", uint32(bounds.MaxJobID))
	}
	if err := checkRequestSizes(c); err != nil {
		return refuse(Invalid, "%v", err)
	}
	if refused := s.checkKnown(c); refused != nil {
		return refused
	}
	if refused := choosePartitions(s.policy, spec, c.Owner.UID); refused != nil {
		return refused
	}
	if refused := s.checkArray(spec); refused != nil {
		return refused
	}
	tasks := 1
	if spec.IsArray() {
		tasks = int(ranges.Count(spec.ArrayTasks))
	}
	return s.MaySubmit(c.Owner.UID, tasks)
}

// checkKnown refuses content that is named by its digest and missing.
func (s *State) checkKnown(c *SubmitJob) *Refusal {
	for _, content := range []struct {
		bytes  []byte
		digest Digest
	}{{c.Script, c.KnownScript}, {c.Environment, c.KnownEnvironment}} {
		if content.digest == (Digest{}) {
			continue
		}
		if len(content.bytes) > 0 {
			return refuse(Invalid, "a content is given both itself and by its digest")
		}
		if _, known := s.shared.blobs[content.digest]; !known {
			return refuse(ContentGone, "a content is named that no job has any more: submit it whole")
		}
	}
	return nil
}

// abridgeAbove is the size above which a digest takes less room.
const abridgeAbove = 2 * len(Digest{})

// Abridge is the same submission with digests in place of contents that jobs
// have already, so that the log need not carry them once more. Applying it is
// refused with ContentGone if the last of these jobs was forgotten meanwhile:
// propose the whole submission then.
func (s *State) Abridge(c SubmitJob) SubmitJob {
	abridge := func(bytes *[]byte, known *Digest) {
		if len(*bytes) <= abridgeAbove {
			return
		}
		digest := blobDigest(*bytes)
		if _, there := s.shared.blobs[digest]; there {
			*bytes, *known = nil, digest
		}
	}
	abridge(&c.Script, &c.KnownScript)
	abridge(&c.Environment, &c.KnownEnvironment)
	return c
}

// ShapeOf is what the scheduler would see of a submission under this policy.
// The error is what applying it would say about its partitions and its request;
// it wraps a *Refusal.
func ShapeOf(p *policy.Policy, c *SubmitJob) (*Shape, error) {
	spec := c.Spec
	if refused := choosePartitions(p, &spec, c.Owner.UID); refused != nil {
		return nil, refused
	}
	fillDefaults(p, &spec)
	shape, err := shapeOf(&spec, &c.Owner)
	if err != nil {
		return nil, refuse(Invalid, "%v", err)
	}
	return shape, nil
}

// choosePartitions checks the requested partitions, or takes the default one,
// and sets the network accordingly.
func choosePartitions(p *policy.Policy, asked *Spec, uid uint32) *Refusal {
	if len(asked.Partitions) == 0 {
		partition := p.DefaultPartition()
		if partition == nil {
			return refuse(Invalid, "No partition specified or system default partition: name one with --partition")
		}
		asked.Partitions = []string{partition.Name}
	}
	rootAllowed := false
	seen := map[string]bool{}
	for _, name := range asked.Partitions {
		partition, known := p.Partition(name)
		if !known {
			return refuse(Invalid, "invalid partition specified: %.128s\n%s", name, p.PartitionNames())
		}
		if seen[name] {
			return refuse(Invalid, "partition %s is named twice: name it once", name)
		}
		seen[name] = true
		rootAllowed = rootAllowed || partition.AllowRootJobs
	}
	if uid == 0 && !rootAllowed {
		return refuse(Denied, "jobs of root are not allowed in partition %s: submit as a user with --uid=USER, or set allow_root_jobs in the partition", strings.Join(asked.Partitions, ","))
	}
	if refusal := checkImage(p, asked); refusal != nil {
		return refusal
	}
	if refusal := asked.checkStagingNodes(); refusal != nil {
		return refusal
	}
	return chooseNetwork(p, asked)
}

func (s *State) checkArray(asked *Spec) *Refusal {
	if !asked.IsArray() {
		asked.MaxRunning = 0
		return nil
	}
	tasks := ranges.Messages(asked.ArrayTasks)
	if err := spec.CheckArray(arraySpec(asked)); err != nil {
		return refuse(Invalid, "%v", err)
	}
	asked.ArrayTasks = ranges.FromMessages(spec.NormalizeRanges(tasks))
	last := asked.ArrayTasks[len(asked.ArrayTasks)-1].Last
	if last >= s.policy.MaxArraySize {
		return refuse(Invalid, "Invalid job array specification: task %d is too high, the highest is %d (max_array_size)", last, s.policy.MaxArraySize-1)
	}
	return nil
}

// fillDefaults takes what was not requested from the first partition, as Slurm
// does.
func fillDefaults(p *policy.Policy, asked *Spec) {
	partition, _ := p.Partition(asked.Partitions[0])
	if asked.TimeLimitS == 0 {
		asked.TimeLimitS = partition.DefaultTimeS
		if asked.TimeLimitS == 0 {
			asked.TimeLimitS = partition.MaxTimeS
		}
	}
	fillMemory(p.DefaultMemoryOf(partition), asked)
	implyTasks(asked)
}

// checkRequestSizes bounds everything a submitter may make long.
func checkRequestSizes(c *SubmitJob) error {
	r, own := &c.Spec, &c.Own
	names := []string{own.Name, r.Account, r.QOS, own.Comment, r.WCKey, r.SubmitHost, r.Constraint, c.Owner.User, c.Owner.Group, c.Owner.UIDDomain}
	for _, name := range names {
		if len(name) > spec.MaxNameBytes {
			return fmt.Errorf("%q… is longer than %d bytes: shorten it", bounds.Clip(name, 32), spec.MaxNameBytes)
		}
	}
	for _, path := range []string{own.Command, own.WorkDirectory, own.StandardOutput, own.StandardError, own.StandardInput, c.Owner.Home, c.Owner.Shell} {
		if len(path) > spec.MaxPathBytes {
			return fmt.Errorf("path %q… is longer than %d bytes", bounds.Clip(path, 32), spec.MaxPathBytes)
		}
	}
	argumentBytes := len(r.ExportOption)
	for _, argument := range own.Arguments {
		argumentBytes += len(argument)
	}
	switch {
	case len(c.Script) > spec.MaxScriptBytes:
		return fmt.Errorf("script of %d bytes is larger than %d: put the data into a separate file", len(c.Script), spec.MaxScriptBytes)
	case len(c.Environment) > spec.MaxEnvironmentBytes:
		return fmt.Errorf("environment of %d bytes is larger than %d: pass less with --export", len(c.Environment), spec.MaxEnvironmentBytes)
	case len(own.Arguments) > spec.MaxArguments || argumentBytes > spec.MaxArgumentBytes:
		return fmt.Errorf("arguments are longer than %d bytes or more than %d: pass them in a file", spec.MaxArgumentBytes, spec.MaxArguments)
	case len(r.Partitions) > bounds.MaxPartitions || len(r.GPUs) > bounds.MaxDevicesPerNode || len(c.Owner.Groups) > bounds.MaxListEntries:
		return fmt.Errorf("too many partitions, GPU requests or groups")
	}
	return nil
}
