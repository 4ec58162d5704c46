package state

import (
	"crypto/sha256"

	"github.com/tidwall/btree"
)

// This file keeps what jobs share: blobs, owners and requests, each stored
// once under its digest with the number of records that refer to it, and
// shapes, which are derived from requests. A request holds its owner, script,
// environment and shape; a job record holds its request.

func blobDigest(blob []byte) Digest {
	if len(blob) == 0 {
		return Digest{}
	}
	return sha256.Sum256(blob)
}

// recordDigest is the digest of a record's deterministic encoding.
func recordDigest(record any) Digest {
	encoded, err := encoding.Marshal(record)
	if err != nil {
		panic("ctld/state: records of plain fields always encode: " + err.Error())
	}
	return sha256.Sum256(encoded)
}

// internRequest stores the request of a submission, unless it is stored
// already, together with what it refers to, and returns the shared one. It has
// no reference yet: the job record that is put next has. The error is the
// user's, and nothing is stored then.
func (s *State) internRequest(request *Request, c *SubmitJob) (*Request, Digest, error) {
	shared := *request
	shared.Owner = recordDigest(&c.Owner)
	shared.Script = blobDigest(c.Script)
	shared.Environment = blobDigest(c.Environment)
	digest := recordDigest(&shared)
	key := string(digest[:])
	if entry, known := s.requests.Get(key); known {
		return entry.value, digest, nil
	}
	shape, err := shapeOf(&shared, &c.Owner)
	if err != nil {
		return nil, digest, err
	}
	owner := c.Owner
	shared.owner = addReference(s.owners, shared.Owner, &owner)
	addReference(s.blobs, shared.Script, c.Script)
	addReference(s.blobs, shared.Environment, c.Environment)
	shared.shape = s.addShape(shape)
	s.requests.Set(key, counted[*Request]{value: &shared})
	return &shared, digest, nil
}

// referRequest counts one more job record of a request.
func (s *State) referRequest(digest Digest) {
	key := string(digest[:])
	entry, _ := s.requests.Get(key)
	entry.references++
	s.requests.Set(key, entry)
}

// releaseRequest counts one job record less, and drops with the last one all
// that nobody else shares.
func (s *State) releaseRequest(digest Digest) {
	key := string(digest[:])
	entry, _ := s.requests.Get(key)
	if entry.references > 1 {
		entry.references--
		s.requests.Set(key, entry)
		return
	}
	s.requests.Delete(key)
	dropReference(s.owners, entry.value.Owner)
	dropReference(s.blobs, entry.value.Script)
	dropReference(s.blobs, entry.value.Environment)
	s.dropShape(entry.value.shape)
}

func addReference[V any](table *btree.Map[string, counted[V]], digest Digest, value V) V {
	if digest == (Digest{}) {
		return value
	}
	key := string(digest[:])
	entry, known := table.Get(key)
	if !known {
		entry.value = value
	}
	entry.references++
	table.Set(key, entry)
	return entry.value
}

func dropReference[V any](table *btree.Map[string, counted[V]], digest Digest) {
	if digest == (Digest{}) {
		return
	}
	key := string(digest[:])
	entry, _ := table.Get(key)
	if entry.references > 1 {
		entry.references--
		table.Set(key, entry)
		return
	}
	table.Delete(key)
}

func (s *State) addShape(shape *Shape) *Shape {
	entry, known := s.shapes.Get(shape.key)
	if !known {
		entry.shape = shape
	}
	entry.requests++
	s.shapes.Set(shape.key, entry)
	return entry.shape
}

func (s *State) dropShape(shape *Shape) {
	entry, _ := s.shapes.Get(shape.key)
	if entry.requests > 1 {
		entry.requests--
		s.shapes.Set(shape.key, entry)
		return
	}
	s.shapes.Delete(shape.key)
}

// countWaiting counts a job record into or out of its shape.
func (s *State) countWaiting(shape *Shape, change int32) {
	entry, _ := s.shapes.Get(shape.key)
	entry.waiting = uint32(int32(entry.waiting) + change)
	s.shapes.Set(shape.key, entry)
}
