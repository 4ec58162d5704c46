package state

import (
	"errors"
	"fmt"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
)

// checkShared counts the references to shared content, and compares.
func (s *State) checkShared() error {
	specs, owners, shapes, blobs := map[Digest]uint32{}, map[Digest]uint32{}, map[Digest]uint32{}, map[Digest]uint32{}
	var errs []error
	for job := range s.Jobs(0) {
		specs[job.Spec.digest]++
		if entry := s.shared.specs[job.Spec.digest]; entry == nil || entry.value != job.Spec {
			errs = append(errs, fmt.Errorf("job %d has a spec of its own", job.ID))
		}
		for _, blob := range []*Blob{job.Script, job.Environment} {
			if blob != nil {
				blobs[blob.Digest]++
			}
		}
	}
	slots := map[uint32]bool{}
	for _, entry := range s.shared.specs {
		owners[entry.value.owner.digest]++
		shapes[entry.value.shape.digest]++
		slots[entry.value.shape.slot] = true
		if entry.value.shape.slot >= s.shapeSlots {
			errs = append(errs, fmt.Errorf("a shape has slot %d of %d", entry.value.shape.slot, s.shapeSlots))
		}
	}
	if len(slots) != len(shapes) {
		errs = append(errs, fmt.Errorf("%d shapes have %d slots", len(shapes), len(slots)))
	}
	errs = append(errs, sameReferences("spec", specs, s.shared.specs), sameReferences("owner", owners, s.shared.owners),
		sameReferences("shape", shapes, s.shared.shapes), sameReferences("blob", blobs, s.shared.blobs))
	return errors.Join(errs...)
}

func sameReferences[V any](name string, want map[Digest]uint32, have map[Digest]*counted[V]) error {
	for digest, entry := range have {
		if want[digest] != entry.references {
			return fmt.Errorf("%s %x has %d references, and should have %d", name, digest[:8], entry.references, want[digest])
		}
	}
	if len(have) != len(want) {
		return fmt.Errorf("of the %ss %d are kept, %d are referred to", name, len(have), len(want))
	}
	return nil
}

// checkRemembered compares the remembered requests with their index.
func (s *State) checkRemembered() error {
	if len(s.remembered) > bounds.MaxRemembered || len(s.remembered) != len(s.requests.positions) {
		return fmt.Errorf("%d requests are remembered, %d can be found, at most %d may be", len(s.remembered), len(s.requests.positions), bounds.MaxRemembered)
	}
	results, last := 0, uint64(0)
	for i := range s.remembered {
		request := &s.remembered[i]
		if found, _ := s.lookUpRequest(request.id); found != request || request.index <= last {
			return fmt.Errorf("the request of log entry %d is not found, or out of order", request.index)
		}
		last = request.index
		results += len(request.results())
	}
	if results != s.requests.results {
		return fmt.Errorf("%d results are remembered, %d are counted", results, s.requests.results)
	}
	return nil
}
