package state

import "crypto/sha256"

// This file keeps what jobs share: blobs, specs, owners and shapes, each once
// under its digest with the number of its references. A job record refers to
// its spec and blobs, a spec to its owner and shape. The tables here belong to
// the State alone: a View finds everything through its job records, so that a
// submission changes few tables that Views share.

// shared is content by digest.
type shared struct {
	blobs  map[Digest]*counted[*Blob]
	specs  map[Digest]*counted[*Spec]
	owners map[Digest]*counted[*Owner]
	shapes map[Digest]*counted[*Shape]
	slots  []uint32 // of shapes, free to be given again
	// held counts the records of a user that refer to a blob.
	held map[heldBlob]uint32
	// last is the Own of the job that was stored last. Jobs that are alike come
	// one after another, and then share the memory.
	last packed
}

// counted is a value with the number of its references.
type counted[V any] struct {
	value      V
	references uint32
}

func newShared() shared {
	return shared{
		blobs:  make(map[Digest]*counted[*Blob]),
		specs:  make(map[Digest]*counted[*Spec]),
		owners: make(map[Digest]*counted[*Owner]),
		shapes: make(map[Digest]*counted[*Shape]),
		held:   make(map[heldBlob]uint32),
	}
}

func blobDigest(blob []byte) Digest { return sha256.Sum256(blob) }

// recordDigest is the digest of a record's deterministic encoding.
func recordDigest(record any) Digest {
	encoded, err := encoding.Marshal(record)
	if err != nil {
		panic("ctld/state: records of plain fields always encode: " + err.Error())
	}
	return sha256.Sum256(encoded)
}

// specDigest is the digest of a spec together with its owner's.
func specDigest(spec *Spec, owner Digest) Digest {
	encoded, err := encoding.Marshal(spec)
	if err != nil {
		panic("ctld/state: records of plain fields always encode: " + err.Error())
	}
	return sha256.Sum256(append(encoded, owner[:]...))
}

// internSpec returns the shared spec that equals the given one, and keeps it if
// it is new. It has no reference yet: the job record that is stored next adds
// one. The error is the user's, and then nothing is kept.
func (s *State) internSpec(given *Spec, owner *Owner) (*Spec, error) {
	ownerDigest := recordDigest(owner)
	digest := specDigest(given, ownerDigest)
	if entry, known := s.shared.specs[digest]; known {
		return entry.value, nil
	}
	shape, err := shapeOf(given, owner)
	if err != nil {
		return nil, err
	}
	kept, spec := *owner, *given
	kept.digest, spec.digest = ownerDigest, digest
	spec.owner = refer(s.shared.owners, ownerDigest, &kept)
	spec.shape = s.referShape(shape)
	s.shared.specs[digest] = &counted[*Spec]{value: &spec}
	return &spec, nil
}

// internBlob returns the shared blob with these bytes, or with this digest;
// nil for neither. It has no reference yet.
func (s *State) internBlob(bytes []byte, digest Digest) *Blob {
	if len(bytes) > 0 {
		digest = blobDigest(bytes)
	} else if digest == (Digest{}) {
		return nil
	}
	entry, known := s.shared.blobs[digest]
	if !known {
		entry = &counted[*Blob]{value: &Blob{Digest: digest, Bytes: bytes}}
		s.shared.blobs[digest] = entry
	}
	return entry.value
}

// internOwn packs the Own of a job.
func (s *State) internOwn(own *Own) packed {
	if packed := own.pack(); packed != s.shared.last {
		s.shared.last = packed
	}
	return s.shared.last
}

func (s *State) releaseSpec(spec *Spec) {
	if release(s.shared.specs, spec.digest) {
		s.forgetSpec(spec)
	}
}

// dropUnused forgets a spec that was interned for a record that was not stored.
func (s *State) dropUnused(spec *Spec) {
	if entry, known := s.shared.specs[spec.digest]; known && entry.references == 0 {
		delete(s.shared.specs, spec.digest)
		s.forgetSpec(spec)
	}
}

// forgetSpec drops the references of a spec that is out of the table.
func (s *State) forgetSpec(spec *Spec) {
	release(s.shared.owners, spec.owner.digest)
	if shape := spec.shape; release(s.shared.shapes, shape.digest) {
		s.shared.slots = append(s.shared.slots, shape.slot)
	}
}

// referShape counts one more spec of a shape and returns the shared one.
func (s *State) referShape(shape *Shape) *Shape {
	if _, known := s.shared.shapes[shape.digest]; !known {
		shape.slot = uint32(len(s.shared.shapes))
		if free := len(s.shared.slots); free > 0 {
			shape.slot = s.shared.slots[free-1]
			s.shared.slots = s.shared.slots[:free-1]
		}
		s.shapeSlots = max(s.shapeSlots, shape.slot+1)
	}
	return refer(s.shared.shapes, shape.digest, shape)
}

func refer[V any](table map[Digest]*counted[V], digest Digest, value V) V {
	entry, known := table[digest]
	if !known {
		entry = &counted[V]{value: value}
		table[digest] = entry
	}
	entry.references++
	return entry.value
}

// release reports whether it was the last reference.
func release[V any](table map[Digest]*counted[V], digest Digest) bool {
	entry := table[digest]
	entry.references--
	if entry.references > 0 {
		return false
	}
	delete(table, digest)
	return true
}
