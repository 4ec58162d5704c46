package container

import (
	"errors"
	"fmt"
	"time"

	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"
)

// Bare helps to measure. It makes the container that Start would make, from the
// very same configuration, with libcontainer alone, which also translates the
// system-call filter. It runs a program in it, waits for its end and removes it.
// It answers how long libcontainer took from the configuration until the program
// started. It uses Spec.InitPath, Filter and Orders only for mounts.
func Bare(spec *Spec, argv ...string) (took time.Duration, err error) {
	stage, err := newStage(spec)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stage.close()) }()
	config, err := newConfig(spec, stage)
	if err != nil {
		return 0, err
	}
	if config.Seccomp, err = seccompConfig(spec.Nested); err != nil {
		return 0, err
	}
	process := newProcess(spec, argv...)
	begin := time.Now()
	library, err := libcontainer.Create(stage.states(), spec.ID, config)
	if err != nil {
		return 0, fmt.Errorf("create container: %w", err)
	}
	defer func() { err = errors.Join(err, library.Destroy()) }()
	if err := library.Run(process); err != nil {
		_ = library.Signal(unix.SIGKILL)
		return 0, fmt.Errorf("start container: %w", err)
	}
	took = time.Since(begin)
	_, err = process.Wait()
	return took, err
}
