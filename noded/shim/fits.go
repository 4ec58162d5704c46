package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/imagedir"
	"github.com/gleaner-hpc/gleaner/noded/shim/prepare"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// A separate process finds out whether an allocation could resume here from an image. It
// calls the functions that the allocation's supervisor would call before CRIU. As the
// user it looks at the user's files, whose server may never answer, so it can be killed.

// FitsMain is that process, on the main goroutine: it reads the facts, and writes a
// Misfit.
func FitsMain(dir string, in io.Reader, out io.Writer) error {
	if err := container.Isolate(); err != nil {
		return err
	}
	unix.Umask(0o022)
	facts := new(checkpoint.Manifest)
	if err := json.NewDecoder(in).Decode(facts); err != nil {
		return fmt.Errorf("read the facts of an image: %w", err)
	}
	d := bundle.Dir(dir)
	p, err := newAlloc(d, newLog(d))
	if err != nil {
		return err
	}
	p.job.DryRun = true
	return json.NewEncoder(out).Encode(misfitOf(p.fits(facts)))
}

// fits answers why the allocation cannot resume from an image, as restore would.
func (p *alloc) fits(facts *checkpoint.Manifest) error {
	if err := p.job.CheckAccounts(p.startContext); err != nil {
		return err
	}
	if err := p.mayHave(facts); err != nil {
		return err
	}
	p.job.ImageTmpBytes = facts.TmpBytes
	defer p.job.DropDisk()
	description, cleanup, err := p.prepare()
	if err != nil {
		return err
	}
	defer cleanup()
	return container.Fits(p.startContext, description, p.settings.Checkpoint.Engine, container.Image{Manifest: facts, AsSaved: p.order.AsSaved})
}

// mayHave refuses an image that is not the allocation's, or for which there is no room.
func (p *alloc) mayHave(m *checkpoint.Manifest) error {
	if m.Job != p.order.Alloc.Job || m.Epoch >= p.order.Alloc.Epoch || m.UID != p.job.User.UID {
		return fmt.Errorf("image: it is of run %d of job %d of user %d, and this is run %d of job %d of user %d",
			m.Epoch, m.Job, m.UID, p.order.Alloc.Epoch, p.order.Alloc.Job, p.job.User.UID)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(p.settings.StateDir, &fs); err != nil {
		return fmt.Errorf("see how much room there is: %w", err)
	}
	if most := p.settings.TmpBytes; most > 0 && m.TmpBytes > most {
		return &roomError{fmt.Sprintf("disk: the job has %s of its node's disk (TmpDisk), and here jobs may write %s: choose a node with more", spec.FormatSize(m.TmpBytes), spec.FormatSize(most))}
	}
	need, room := imagedir.NewWays(nil).Bytes(m), fs.Bavail*uint64(fs.Bsize)
	if imagedir.EnoughMemory(need) == nil {
		need = 0 // it is unpacked in memory
	}
	need += uint64(container.LayerBytes(m))
	if need > room {
		return &roomError{fmt.Sprintf("disk: %s has %s, and the image needs %s: remove something there, or choose a node with more", p.settings.StateDir, spec.FormatSize(room), spec.FormatSize(need))}
	}
	return nil
}

// roomError is about the disk of this node.
type roomError struct{ text string }

func (e *roomError) Error() string { return e.text }

// misfitOf names what an error is about.
func misfitOf(err error) bundle.Misfit {
	var misfit *container.MisfitError
	var room *roomError
	var request *prepare.RequestError
	var chosen *container.ChosenError
	switch {
	case err == nil:
		return bundle.Misfit{}
	case errors.As(err, &misfit) && len(misfit.Found) > 0:
		return bundle.Misfit{Property: misfit.Found[0].Property, Reason: misfit.Found[0].String()}
	case errors.As(err, &room):
		return bundle.Misfit{Property: "disk", Reason: err.Error()}
	case errors.Is(err, prepare.ErrNotAdmitted):
		return bundle.Misfit{Property: "container image", Reason: err.Error()}
	case errors.Is(err, prepare.ErrOtherAccount), errors.Is(err, container.ErrUser):
		return bundle.Misfit{Property: "user", Reason: err.Error()}
	case errors.As(err, &request), errors.As(err, &chosen):
		return bundle.Misfit{Property: "path", Reason: err.Error()}
	}
	return bundle.Misfit{Property: "node", Reason: err.Error()}
}
