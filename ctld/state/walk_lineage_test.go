package state

import "testing"

// lineage is what a test knows by itself of the images of a job: from where each came,
// and which are dead, because a run continued that does not come from them.
type lineage struct {
	parent map[uint32]uint32 // of each image that ever was, by number
	epoch  map[uint32]uint32 // of the run that made it
	dead   map[uint32]bool
}

// kill notes as dead what is none of a run's own images, nor what it came from, and
// reports whether that is anything which lived.
func (of *lineage) kill(job *Job) (some bool) {
	line := map[uint32]bool{}
	for number := job.Run.Restore.Number; number != 0; number = of.parent[number] {
		line[number] = true
	}
	for number, epoch := range of.epoch {
		if !line[number] && epoch != job.Epoch && !of.dead[number] {
			of.dead[number], some = true, true
		}
	}
	return some
}

// lineages follow a walk by its records, from what appears in them.
type lineages map[uint32]*lineage

// follow learns from a step, and checks that nothing dead is kept or used.
func (all lineages) follow(t *testing.T, before, after *View, tally map[string]int) {
	t.Helper()
	for job := range after.LiveJobs() {
		if job.Saved == nil || job.Run == nil {
			continue
		}
		of := all[job.ID]
		if of == nil {
			of = &lineage{map[uint32]uint32{}, map[uint32]uint32{}, map[uint32]bool{}}
			all[job.ID] = of
		}
		for i := range job.Images() {
			if image := &job.Images()[i]; image.Epoch == job.Epoch {
				of.saved(job, image.Number)
			}
		}
		if from := job.Run.Restore; from != nil {
			if of.dead[from.Number] {
				t.Fatalf("job %d resumes from image %d, which is dead: %v", job.ID, from.Number, of)
			}
			if job.Phase == Running && !job.Configuring() && of.kill(job) {
				tally["undone"]++
			}
		}
	}
}
