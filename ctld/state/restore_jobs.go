package state

import (
	"errors"
	"fmt"
)

// The shared records are kept as they come; the jobs that follow add the
// references.

func (s *restoring) restoreOwner(owner *Owner) error {
	owner.digest = recordDigest(owner)
	s.owners = append(s.owners, owner)
	return keepOnce(s.shared.owners, owner.digest, owner)
}

func (s *restoring) restoreBlob(bytes *[]byte) error {
	if len(*bytes) == 0 {
		return errors.New("it is empty")
	}
	blob := &Blob{Digest: blobDigest(*bytes), Bytes: *bytes}
	s.blobs = append(s.blobs, blob)
	return keepOnce(s.shared.blobs, blob.Digest, blob)
}

func (s *restoring) restoreSpec(record *specRecord) error {
	owner, err := numbered(s.owners, record.Owner)
	if err != nil || owner == nil {
		return fmt.Errorf("its owner is missing: %w", err)
	}
	spec := &record.Spec
	shape, err := shapeOf(spec, owner)
	if err != nil {
		return err
	}
	spec.digest = specDigest(spec, owner.digest)
	spec.owner = refer(s.shared.owners, owner.digest, owner)
	spec.shape = s.referShape(shape)
	s.specs = append(s.specs, spec)
	return keepOnce(s.shared.specs, spec.digest, spec)
}

func (s *restoring) restoreJob(record *jobRecord) error {
	job := &record.Job
	var errs [3]error
	job.Spec, errs[0] = numbered(s.specs, record.Spec)
	job.Script, errs[1] = numbered(s.blobs, record.Script)
	job.Environment, errs[2] = numbered(s.blobs, record.Environment)
	if err := errors.Join(errs[:]...); err != nil || job.Spec == nil {
		return fmt.Errorf("job %d: its spec or a content of it is missing: %w", job.ID, err)
	}
	if _, twice := s.Job(job.ID); twice || job.ID == 0 || job.ID >= s.nextJob {
		return fmt.Errorf("job %d is there twice or its number was never given", job.ID)
	}
	if job.Association >= s.nextAssociation {
		return fmt.Errorf("job %d: its association %d was never given", job.ID, job.Association)
	}
	job.own = s.internOwn(&record.Own)
	if err := checkJob(job); err != nil {
		return err
	}
	for _, held := range heldAllocs(job) {
		if _, known := s.nodes.Get(held.alloc.Node); !known {
			return fmt.Errorf("job %d: its node %q is missing", job.ID, held.alloc.Node)
		}
	}
	kept := *job // without the rest of the record
	s.replaceJob(nil, &kept)
	return nil
}

func (s *restoring) restoreRemembered(record *rememberedRecord) error {
	if _, twice := s.lookUpRequest(record.ID); twice {
		return fmt.Errorf("request %x is there twice", record.ID[:4])
	}
	last := uint64(0)
	if count := len(s.remembered); count > 0 {
		last = s.remembered[count-1].index
	}
	if record.Index <= last || record.Index > s.index {
		return fmt.Errorf("request %x has an impossible index %d", record.ID[:4], record.Index)
	}
	request := remembered{id: record.ID, kind: record.Kind, index: record.Index, timeMS: record.TimeMS, jobID: record.JobID}
	if len(record.Jobs) > 0 {
		request.jobs = &record.Jobs
	}
	s.storeRequest(request)
	return nil
}

func keepOnce[V any](table map[Digest]*counted[V], digest Digest, value V) error {
	if _, twice := table[digest]; twice {
		return fmt.Errorf("%x is there twice", digest[:8])
	}
	table[digest] = &counted[V]{value: value}
	return nil
}

// numbered finds a shared record by its number; 0 is none.
func numbered[R any](records []*R, number uint32) (*R, error) {
	switch {
	case number == 0:
		return nil, nil
	case int(number) > len(records):
		return nil, fmt.Errorf("there is no number %d of its kind", number)
	}
	return records[number-1], nil
}

// firstUnused names shared content without a reference; "" when there is none.
func (s *State) firstUnused() string {
	switch {
	case anyUnused(s.shared.specs):
		return "a spec"
	case anyUnused(s.shared.owners):
		return "an owner"
	case anyUnused(s.shared.blobs):
		return "a blob"
	}
	return ""
}

func anyUnused[V any](table map[Digest]*counted[V]) bool {
	for _, entry := range table {
		if entry.references == 0 {
			return true
		}
	}
	return false
}
