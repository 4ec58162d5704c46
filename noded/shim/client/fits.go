package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// FitsWord is the first argument of a program that calls FitsMain.
const FitsWord = "fits"

// askedDir is where such processes have their files, in the state directory.
const askedDir = "asked"

// fitsPatience bounds one of them: controllers wait half a minute for an answer.
const fitsPatience = 20 * time.Second

// Fits answers whether an allocation could resume here, if the order came, from an image
// of which only the facts are known. The error is this node's.
func Fits(ctx context.Context, executable string, s bundle.Settings, order *pb.StartAlloc, facts *checkpoint.Manifest) (bundle.Misfit, error) {
	above := filepath.Join(s.StateDir, askedDir)
	if err := os.MkdirAll(above, 0o700); err != nil {
		return bundle.Misfit{}, fmt.Errorf("make a directory: %w", err)
	}
	parent, err := os.MkdirTemp(above, "")
	if err != nil {
		return bundle.Misfit{}, fmt.Errorf("make a directory: %w", err)
	}
	dir := bundle.Dir(filepath.Join(parent, bundle.ID(order.GetAlloc())))
	if err := bundle.Create(dir, &s, order); err != nil {
		return bundle.Misfit{}, errors.Join(err, remove.Tree(parent))
	}
	text, err := json.Marshal(facts)
	if err != nil {
		return bundle.Misfit{}, errors.Join(err, remove.Tree(parent))
	}
	type result struct {
		found bundle.Misfit
		err   error
	}
	ctx, cancel := context.WithTimeout(ctx, fitsPatience)
	defer cancel()
	over := make(chan result, 1)
	go func() {
		// The process ends with the thread that has started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		found, err := runFits(ctx, executable, dir, text)
		over <- result{found, errors.Join(err, remove.Tree(parent))}
	}()
	silent := bundle.Misfit{Property: "file system", Reason: fmt.Sprintf("the job's files on this node do not answer within %v: see which file server is away (findmnt, dmesg)", fitsPatience)}
	select {
	case r := <-over:
		if ctx.Err() != nil {
			return silent, nil
		}
		return r.found, r.err
	case <-graceOver(ctx): // the kernel does not end it
		return silent, nil
	}
}

// graceOver ends a moment after ctx.
func graceOver(ctx context.Context) <-chan struct{} {
	late := make(chan struct{})
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, func() { close(late) }) })
	return late
}

func runFits(ctx context.Context, executable string, dir bundle.Dir, facts []byte) (found bundle.Misfit, err error) {
	cmd := exec.CommandContext(ctx, executable, FitsWord, string(dir))
	cmd.Dir, cmd.Stdin = "/", bytes.NewReader(facts)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &found)
	}
	if err != nil {
		return found, fmt.Errorf("see whether a job could resume here: %w %s", err, bytes.TrimSpace(complaints.Bytes()))
	}
	return found, nil
}
