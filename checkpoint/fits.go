package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Misfit is a property of a machine that keeps it from resuming an image.
type Misfit struct {
	Property   string // "kernel", "CRIU", "processor", "GPU", "file /usr/lib/…"
	Want, Have string // "" = none
	Reason     string // in a sentence, in place of these two; may be ""
	Remedy     string // in a sentence
}

// String answers it in a sentence.
func (m Misfit) String() string {
	if m.Reason != "" {
		return m.Property + ": " + m.Reason + "; " + m.Remedy
	}
	have := m.Have
	if have == "" {
		have = "there is none"
	}
	return fmt.Sprintf("%s: the image needs %s, and here %s; %s", m.Property, m.Want, have, m.Remedy)
}

// maxMisfits bounds the answer: a machine with another system differs in every
// file.
const maxMisfits = 16

// Here is what a machine would give the job of an image.
type Here struct {
	Machine Machine
	UID     uint32 // whose job it would be
	Root    string // what the container's root would be made of
	IDs     IDs    // of its user namespace
	Limits  Limits
	// Memory is how many bytes the job may use; 0 = as many as it likes.
	Memory int64
	// Devices are those that the container would have, in order.
	Devices []Device
	// Look answers what is at a path of the root, as a job would see it, or an
	// error that wraps fs.ErrNotExist.
	Look func(path string) (File, error)
}

// Fits answers why a machine cannot resume the image; nothing = it can. The question
// beforehand and the restore itself use the same answer. Fits does not look at files
// that the image carries, nor at the GPU memory in it: see cuda.Fits.
func (m *Manifest) Fits(here Here) []Misfit {
	_, found := ReplaceDevices(m.Devices, here.Devices)
	found = slices.Concat(m.Machine.fits(here.Machine), m.jobFits(&here), m.Needs.fits(here.Limits), found)
	for i := range m.Files {
		if len(found) >= maxMisfits {
			break
		}
		if want := &m.Files[i]; want.Carried == "" {
			found = append(found, want.fits(here.Look)...)
		}
	}
	return found
}

// jobFits: the user and the groups are the same, and there is room.
func (m *Manifest) jobFits(here *Here) (found []Misfit) {
	if m.UID != here.UID {
		found = append(found, Misfit{Property: "user", Reason: fmt.Sprintf("its processes are user %d's, and not user %d's", m.UID, here.UID), Remedy: "choose a node that knows the user by the same number"})
	}
	if m.Root != here.Root {
		found = append(found, Misfit{Property: "root", Reason: fmt.Sprintf("its root is %q, and jobs here have %q", m.Root, here.Root), Remedy: "choose a node whose jobs have the same"})
	}
	if m.IDs != (IDs{}) && m.IDs != here.IDs {
		found = append(found, Misfit{Property: "groups", Reason: "the user has not the groups here that the job began with", Remedy: "choose a node on which the user has the same"})
	}
	if want := m.memory(); here.Memory > 0 && want > here.Memory {
		found = append(found, Misfit{Property: "memory", Want: fmt.Sprintf("%d bytes", want), Have: fmt.Sprintf("the job may take %d", here.Memory), Remedy: "give it more, or choose a node with more"})
	}
	return found
}

// memory is what the processes need at least, in bytes. The parts have what processes share
// after a fork(2) once for each of them. CRIU has them share it again.
func (m *Manifest) memory() (n int64) {
	for i := range m.Parts {
		if base := path.Base(m.Parts[i].Name); strings.HasPrefix(base, "pages-") {
			n += m.Parts[i].Size
		}
	}
	if m.Memory > 0 {
		return min(n, m.Memory)
	}
	return n
}

func (want Machine) fits(have Machine) (found []Misfit) {
	differ := func(property, want, have, remedy string) {
		if want != have {
			found = append(found, Misfit{Property: property, Want: want, Have: have, Remedy: remedy})
		}
	}
	differ("architecture", want.Arch, have.Arch, "choose a node of the same kind")
	differ("control groups", want.Cgroup, have.Cgroup, "choose a node with the same version")
	if !kernelFits(want.Kernel, have.Kernel) {
		differ("kernel", want.Kernel, have.Kernel, "choose a node whose kernel is the same or newer")
	}
	if !versionFits(want.CRIU, have.CRIU) {
		differ("CRIU", want.CRIU, have.CRIU, "choose a node whose CRIU is the same or newer, or update it there")
	}
	if lack := lackingFeatures(want.Processor, have.Processor); len(lack) > 0 {
		found = append(found, Misfit{Property: "processor", Want: strings.Join(lack, ", "), Have: "it lacks that", Remedy: "choose a node whose processor is the same or newer"})
	}
	return found
}

func (want *File) fits(look func(path string) (File, error)) []Misfit {
	const remedy = "choose a node with the same version of the package that it belongs to"
	property := "file " + want.Path
	have, err := look(want.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []Misfit{{Property: property, Want: want.describe(), Remedy: remedy}}
	case err != nil:
		return []Misfit{{Property: property, Want: want.describe(), Have: "it cannot be read: " + err.Error(), Remedy: remedy}}
	case have.Size != want.Size || have.SHA256 != want.SHA256:
		return []Misfit{{Property: property, Want: want.describe(), Have: have.describe(), Remedy: remedy}}
	}
	return nil
}

func (f *File) describe() string {
	return fmt.Sprintf("%d bytes with SHA-256 %.12s…", f.Size, f.SHA256.String())
}

// kernelFits: an image may resume on a newer kernel, because what programs have
// learned about the older one still holds there. Only the first two numbers
// count: the rest are corrections.
func kernelFits(want, have string) bool {
	w, okW := numbers(want, 2)
	h, okH := numbers(have, 2)
	if !okW || !okH {
		return want == have
	}
	return h[0] > w[0] || h[0] == w[0] && h[1] >= w[1]
}

// versionFits: a CRIU reads the images of older ones.
func versionFits(want, have string) bool {
	w, okW := numbers(want, 2)
	h, okH := numbers(have, 2)
	if !okW || !okH {
		return want == have
	}
	return h[0] > w[0] || h[0] == w[0] && h[1] >= w[1]
}

// numbers reads the first n numbers of a version.
func numbers(version string, n int) ([]int, bool) {
	fields := strings.FieldsFunc(version, func(r rune) bool { return r == '.' || r == '-' || r == '+' })
	if len(fields) < n {
		return nil, false
	}
	result := make([]int, n)
	for i := range result {
		number, err := strconv.Atoi(fields[i])
		if err != nil {
			return nil, false
		}
		result[i] = number
	}
	return result, true
}
