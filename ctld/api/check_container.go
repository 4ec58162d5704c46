package api

import (
	"strings"
	"unicode"

	"github.com/gleaner-hpc/gleaner/oci/ref"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// maxContainerNames bounds --container-env.
const maxContainerNames = 256

// checkContainer checks what a request says of its root.
func checkContainer(job *pb.JobSpec) error {
	o := job.GetContainer()
	if job.GetImage() == "" {
		if o != nil || len(job.GetMounts()) > 0 {
			return invalid("--container-mounts and the other options of containers need a container image: name one with --image")
		}
		return nil
	}
	if _, err := ref.ParsePinned(job.GetImage()); err != nil {
		return invalid("--image %.256q: %v", job.GetImage(), err)
	}
	mounts := make([]spec.ContainerMount, len(job.GetMounts()))
	for i, m := range job.GetMounts() {
		mounts[i] = spec.ContainerMount{Source: m.GetSource(), Target: m.GetTarget(), ReadOnly: m.GetReadOnly()}
	}
	if err := spec.CheckMounts(mounts); err != nil {
		return invalid("--container-mounts: %v", err)
	}
	if dir := o.GetWorkDirectory(); dir != "" && (!strings.HasPrefix(dir, "/") || len(dir) > spec.MaxPathBytes || strings.ContainsFunc(dir, unicode.IsControl)) {
		return invalid("--container-workdir %.128q must be an absolute path", dir)
	}
	if len(o.GetEnvironment()) > maxContainerNames {
		return invalid("--container-env names %d variables, more than %d", len(o.GetEnvironment()), maxContainerNames)
	}
	for _, name := range o.GetEnvironment() {
		if name == "" || len(name) > spec.MaxNameBytes || strings.ContainsFunc(name, func(r rune) bool { return r == '=' || unicode.IsControl(r) }) {
			return invalid("--container-env: %.64q is no name of a variable", name)
		}
	}
	return nil
}
