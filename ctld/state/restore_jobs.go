package state

import (
	"errors"
	"fmt"

	"github.com/tidwall/btree"
)

// restoreShared stores content under its digest; the requests and jobs that
// follow add the references.
func restoreShared[V any](table *btree.Map[string, counted[V]], digest Digest, value V) error {
	if digest == (Digest{}) {
		return errors.New("it is empty")
	}
	if _, twice := table.Set(string(digest[:]), counted[V]{value: value}); twice {
		return fmt.Errorf("%x is there twice", digest[:8])
	}
	return nil
}

func (s *State) restoreRequest(request *Request) error {
	digest := recordDigest(request)
	owner, known := s.owners.Get(string(request.Owner[:]))
	if !known {
		return fmt.Errorf("its owner %x is missing", request.Owner[:8])
	}
	for _, blob := range []Digest{request.Script, request.Environment} {
		if _, known := s.blobs.Get(string(blob[:])); !known && blob != (Digest{}) {
			return fmt.Errorf("its content %x is missing", blob[:8])
		}
	}
	shape, err := shapeOf(request, owner.value)
	if err != nil {
		return err
	}
	request.owner = addReference(s.owners, request.Owner, owner.value)
	addReference(s.blobs, request.Script, nil)
	addReference(s.blobs, request.Environment, nil)
	request.shape = s.addShape(shape)
	return restoreShared(s.requests, digest, request)
}

func (s *State) restoreJob(job *Job) error {
	request, known := s.requests.Get(string(job.RequestDigest[:]))
	if !known {
		return fmt.Errorf("job %d: its request %x is missing", job.ID, job.RequestDigest[:8])
	}
	if _, twice := s.jobs.Get(job.ID); twice || job.ID == 0 || job.ID >= s.nextJob {
		return fmt.Errorf("job %d is there twice or its number was never given", job.ID)
	}
	job.Request = request.value
	if err := checkJob(job); err != nil {
		return err
	}
	for _, part := range heldParts(job) {
		if _, known := s.nodes.Get(part.Node); !known {
			return fmt.Errorf("job %d: its node %q is missing", job.ID, part.Node)
		}
	}
	s.replaceJob(nil, job)
	return nil
}

func (s *State) restoreRemembered(record *rememberedRecord) error {
	if _, twice := s.remembered.Get(string(record.ID[:])); twice {
		return fmt.Errorf("request %x is there twice", record.ID[:4])
	}
	if _, twice := s.rememberOrder.Get(record.Index); twice || record.Index > s.index {
		return fmt.Errorf("request %x has an impossible index %d", record.ID[:4], record.Index)
	}
	s.storeRequest(record.ID, &remembered{
		kind: record.Kind, index: record.Index, timeMS: record.TimeMS, jobID: record.JobID, jobs: record.Jobs,
	})
	return nil
}

// firstUnused names shared content without a reference; "" when there is none.
func (s *State) firstUnused() string {
	unused := ""
	s.requests.Scan(func(_ string, entry counted[*Request]) bool {
		if entry.references == 0 {
			unused = "a request"
		}
		return unused == ""
	})
	s.owners.Scan(func(_ string, entry counted[*Owner]) bool {
		if entry.references == 0 {
			unused = "an owner"
		}
		return unused == ""
	})
	s.blobs.Scan(func(_ string, entry counted[[]byte]) bool {
		if entry.references == 0 {
			unused = "a blob"
		}
		return unused == ""
	})
	return unused
}
