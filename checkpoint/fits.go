package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Misfit is something by which a machine cannot go on with an image.
type Misfit struct {
	Property   string // "kernel", "CRIU", "processor", "GPU", "file /usr/lib/…"
	Want, Have string // "" = none
	Remedy     string // in a sentence
}

// String answers it in a sentence.
func (m Misfit) String() string {
	have := m.Have
	if have == "" {
		have = "there is none"
	}
	return fmt.Sprintf("%s: the image needs %s, and here %s; %s", m.Property, m.Want, have, m.Remedy)
}

// maxMisfits bounds the answer: a machine with another system differs in every
// file.
const maxMisfits = 16

// Fits answers why this machine cannot go on with the image; nothing = it can.
// look answers what lies at a path of the root, as a job would see it; an
// error that wraps fs.ErrNotExist when nothing does. Files that the image
// carries along are not looked at.
func (m *Manifest) Fits(here Machine, look func(path string) (File, error)) []Misfit {
	found := m.Machine.fits(here)
	for i := range m.Files {
		if len(found) >= maxMisfits {
			break
		}
		if want := &m.Files[i]; want.Carried == "" {
			found = append(found, want.fits(look)...)
		}
	}
	return found
}

func (want Machine) fits(have Machine) (found []Misfit) {
	differ := func(property, want, have, remedy string) {
		if want != have {
			found = append(found, Misfit{property, want, have, remedy})
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
		found = append(found, Misfit{"processor", strings.Join(lack, ", "), "it lacks that", "choose a node whose processor is the same or newer"})
	}
	if len(want.GPUs) != len(have.GPUs) {
		found = append(found, Misfit{"GPU", strconv.Itoa(len(want.GPUs)), strconv.Itoa(len(have.GPUs)), "choose a node with as many"})
		return found
	}
	for i := range want.GPUs {
		differ(fmt.Sprintf("GPU %d", i), want.GPUs[i].Model, have.GPUs[i].Model, "choose a node with the same model")
		differ(fmt.Sprintf("driver of GPU %d", i), want.GPUs[i].Driver, have.GPUs[i].Driver, "choose a node with the same driver")
	}
	return found
}

func (want *File) fits(look func(path string) (File, error)) []Misfit {
	const remedy = "choose a node with the same version of the package that it belongs to"
	property := "file " + want.Path
	have, err := look(want.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []Misfit{{property, want.describe(), "", remedy}}
	case err != nil:
		return []Misfit{{property, want.describe(), "it cannot be read: " + err.Error(), remedy}}
	case have.Size != want.Size || have.SHA256 != want.SHA256:
		return []Misfit{{property, want.describe(), have.describe(), remedy}}
	}
	return nil
}

func (f *File) describe() string {
	return fmt.Sprintf("%d bytes with SHA-256 %.12s…", f.Size, f.SHA256.String())
}

// kernelFits: an image may go on on a newer kernel, which still knows what
// programs have been told about the older one. Only the first two numbers
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
