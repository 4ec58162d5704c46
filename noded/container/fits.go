package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/memory"
	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

// To find out whether a job could resume here, Fits does everything in a restore that
// comes before CRIU, without the image's bytes. Fits and Restore call the same
// functions, so a node that says yes finds no misfit afterwards, and a node that says
// no says the same when it must try nevertheless.

// MisfitError is why this node, or this container, is not what the image needs. It
// wraps ErrMisfit.
type MisfitError struct{ Found []checkpoint.Misfit }

// Error implements error.
func (e *MisfitError) Error() string {
	texts := make([]string, len(e.Found))
	for i, m := range e.Found {
		texts[i] = m.String()
	}
	return ErrMisfit.Error() + ": " + strings.Join(texts, "; ")
}

// Unwrap implements the interface of errors.Is.
func (e *MisfitError) Unwrap() error { return ErrMisfit }

func misfit(property, reason, remedy string) error {
	return &MisfitError{[]checkpoint.Misfit{{Property: property, Reason: reason, Remedy: remedy}}}
}

// Fits answers why a container of an image, of which only the facts are known (Manifest,
// AsSaved), could not be restored as spec says; nil = no reason is known. What it makes is in spec.Dir
// and in the caller's mount namespace. Like Restore, it is called from the main
// goroutine. It looks at the user's files, whose server may not answer, so the caller
// runs it in a process that can be killed.
func Fits(ctx context.Context, spec *Spec, engine *checkpoint.Engine, facts Image) (err error) {
	stage, _, err := approach(ctx, spec, engine, &facts)
	if stage != nil {
		err = errors.Join(err, stage.close())
	}
	return err
}

// ready is a container up to the point at which CRIU makes its processes.
type ready struct {
	spec      *Spec
	assembled *assembled
	sources   map[string]source
}

// approach does everything in a restore that comes before CRIU. Of an image without a
// directory, only the facts are known. The caller closes the stage if there is one.
func approach(ctx context.Context, spec *Spec, engine *checkpoint.Engine, image *Image) (*stage, *ready, error) {
	if err := checkImage(ctx, spec, engine, image); err != nil {
		return nil, nil, err
	}
	r := &ready{}
	var err error
	if r.spec, err = spec.withDevices(image.Manifest.Devices); err != nil {
		return nil, nil, err
	}
	stage, err := newStage(r.spec)
	if err != nil {
		return nil, nil, err
	}
	fill := func(l layers) error { return image.unpack(ctx, r.spec, l) }
	if image.Dir == "" {
		fill = func(layers) error { return nil }
	}
	if r.assembled, err = stage.assemble(r.spec, fill); err != nil {
		return stage, nil, err
	}
	if err := stage.putCarried(r.assembled, image); err != nil {
		return stage, nil, err
	}
	if r.sources, err = stage.sources(r.spec, r.assembled, image); err != nil {
		return stage, nil, err
	}
	if err := stage.makeMountPoints(r.assembled, r.sources); err != nil {
		return stage, nil, err
	}
	return stage, r, checkHeld(r.spec.User, r.assembled, image.Manifest.Held)
}

// thisNode is what this node would give the job of an image.
func thisNode(ctx context.Context, spec *Spec, engine *checkpoint.Engine) (here checkpoint.Here, err error) {
	here = checkpoint.Here{UID: spec.User.UID, Root: spec.rootName(), Devices: ImageDevices(spec.Devices), Look: spec.look}
	if here.Machine, err = checkpoint.ThisMachine(ctx, engine); err != nil {
		return here, err
	}
	if here.Limits, err = checkpoint.ThisLimits(); err != nil {
		return here, err
	}
	for _, bound := range boundsInside(spec.Nests()) {
		if bound.name == "max_inotify_instances" {
			here.Limits.Watchers = int(min(bound.most, 1<<30))
		}
	}
	uids, err := mapIDs([]uint32{spec.User.UID})
	if err != nil {
		return here, err
	}
	gids, err := mapIDs(append([]uint32{spec.User.GID}, spec.User.Groups...))
	if err != nil {
		return here, err
	}
	here.IDs = checkpoint.IDs{Users: oneSpaced(mapText(uids)), Groups: oneSpaced(mapText(gids))}
	if spec.Cgroup != nil && spec.Cgroup.Resources != nil {
		here.Memory = spec.Cgroup.Memory
	}
	if here.Memory <= 0 {
		total, err := memory.Total()
		if err != nil {
			return here, err
		}
		here.Memory = int64(total)
	}
	return here, nil
}

// oneSpaced is a map of ids as the kernel reads and writes it, with single spaces.
func oneSpaced(text string) string { return strings.Join(strings.Fields(text), " ") }

// checkHeld looks, as the user, in an assembled root for what an image's processes held
// in file systems outside it: they need something of that kind there, with the same
// access.
func checkHeld(user User, a *assembled, held []checkpoint.Held) error {
	for _, want := range held {
		top, rest := a.top(want.Path)
		if top == nil {
			return misfit(want.Kind+" "+want.Path, "it was open, and jobs here have nothing of the host's there", "choose a node that has it")
		}
		err := userpath.As(user.Identity(), 0, func() error {
			found, err := beneath(top, rest, want.Kind)
			if err != nil {
				return fmt.Errorf("its user does not find it: %w", err)
			}
			defer found.Close()
			return mayHold(found, &want, user.UID)
		})
		if err != nil {
			return misfit(want.Kind+" "+want.Path, "it was open: "+err.Error(), "choose a node on which it is there as it was, or put it back")
		}
	}
	return nil
}

// beneath is userpath.BeneathAsSelf of something that may itself be a file or, of that kind, a
// link.
func beneath(top *os.File, rest, kind string) (*os.File, error) {
	switch {
	case strings.Trim(rest, "/") == "":
		return dup(top)
	case kind == checkpoint.KindLink:
		return userpath.LinkBeneathAsSelf(top, rest)
	}
	return userpath.BeneathAsSelf(top, rest)
}

// mayHold is called as the user.
func mayHold(found *os.File, want *checkpoint.Held, uid uint32) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(found.Fd()), &stat); err != nil {
		return err
	}
	if checkpoint.KindOf(stat.Mode) != want.Kind {
		return fmt.Errorf("it is no %s", want.Kind)
	}
	may := func(mode uint32) error {
		return unix.Faccessat2(int(found.Fd()), "", mode, unix.AT_EACCESS|unix.AT_EMPTY_PATH)
	}
	readOnly, noexec, err := mountForbids(found)
	switch {
	case err != nil:
		return err
	case want.Access&unix.W_OK != 0 && readOnly:
		return unix.EROFS
	case want.Mapped && want.Access&unix.X_OK != 0 && noexec:
		return errors.New("its code was in memory, and here it lies on a file system from which nothing is run (noexec)")
	case stat.Uid == uid && want.Kind != checkpoint.KindDirectory:
		return nil // the user can open it again at any time
	case want.Mapped && (may(unix.R_OK) == nil || may(unix.X_OK) == nil):
		return may(want.Access & unix.W_OK)
	}
	return may(want.Access &^ mappedOnly(want))
}

// mappedOnly: a file whose code is in memory need not be a program.
func mappedOnly(want *checkpoint.Held) uint32 {
	if want.Kind == checkpoint.KindFile {
		return unix.X_OK
	}
	return 0
}

// mountForbids says what the mount of a file forbids. It asks no file system.
func mountForbids(file *os.File) (readOnly, noexec bool, err error) {
	info, err := userpath.MountOf(file)
	if err != nil {
		return false, false, err
	}
	options := strings.Split(info.Options+","+info.VFSOptions, ",")
	for _, option := range options {
		readOnly = readOnly || option == "ro"
		noexec = noexec || option == "noexec"
	}
	return readOnly, noexec, nil
}

// top answers the mount of the container's that holds a path inside, and the rest
// of the path.
func (a *assembled) top(path string) (*os.File, string) {
	above := ""
	for target := range a.given {
		if within(path, target) && len(target) > len(above) {
			above = target
		}
	}
	return a.given[above], strings.TrimPrefix(path, above)
}
