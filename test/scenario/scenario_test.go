// Package scenario tells stories about the real binaries: each file of
// testdata starts a cluster with `gleaner dev`, acts as users and
// administrators would, and looks at what they would see. Containers, cgroups,
// device rules and the log on disk are the real ones.
//
// The stories need root. They run in a mount namespace of their own in which
// /home, /etc/passwd and /etc/group are the test's, so that the users alice
// and bob exist there and nowhere else.
package scenario

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// inNamespace marks the process that runs in the tests' own mount namespace;
// its value is a directory for what is mounted there.
const inNamespace = "GLEANER_SCENARIO_NAMESPACE"

func TestMain(m *testing.M) {
	// Whoever runs the tests in the background has a shell ignore these signals, and so would
	// all that a story starts, also what is ended by one of them.
	for _, ignored := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(ignored) {
			signal.Notify(make(chan os.Signal, 1), ignored)
		}
	}
	if os.Geteuid() == 0 && os.Getenv(inNamespace) == "" {
		os.Exit(runInNamespace())
	}
	if directory := os.Getenv(inNamespace); directory != "" {
		if err := makeUsers(directory); err != nil {
			fmt.Fprintln(os.Stderr, "make the test's users:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// runInNamespace runs this test again with mounts of its own.
func runInNamespace() int {
	directory, err := os.MkdirTemp("", "scenario")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(directory)
	if err := copyBinaries(filepath.Join(directory, "bin")); err != nil {
		fmt.Fprintf(os.Stderr, "%v: run `make build` first\n", err)
		return 1
	}
	command := exec.Command("/proc/self/exe", os.Args[1:]...)
	command.Env = append(os.Environ(), inNamespace+"="+directory)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err = command.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// saidScript runs a command and writes its two outputs as one, without the line by which it
// says on a busy machine that it waits.
const saidScript = `#!/bin/bash
"$@" 2>&1 | sed '/ no controller has answered yet at .*; still trying$/d'
exit ${PIPESTATUS[0]}
`

// copyBinaries puts what was built, and that script, where every user can reach it: the
// checkout may lie in a home that is closed to others.
func copyBinaries(to string) error {
	if err := os.CopyFS(to, os.DirFS(filepath.Join("..", "..", "bin"))); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(to, "gnoded")); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(to, "said"), []byte(saidScript), 0o755); err != nil {
		return err
	}
	for _, directory := range []string{filepath.Dir(to), to} {
		if err := os.Chmod(directory, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func TestScenarios(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the stories run real containers and cgroups")
	}
	binaries := filepath.Join(os.Getenv(inNamespace), "bin")
	t.Cleanup(func() {
		for _, text := range unclean.texts {
			t.Error(text)
		}
	})
	testscript.Run(t, testscript.Params{
		Files:               stories(t),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               func(env *testscript.Env) error { return setUp(env, binaries) },
		Cmds:                commands,
		Condition:           condition,
	})
}

// longest are the stories that take longest. They begin first: otherwise one of them would
// be all that runs at the end.
var longest = []string{
	"restore-weather", "fence", "storm", "store-weather", "image-copies", "save-weather", "late", "dependencies",
	"lineage", "reclaim-many", "status", "attack-launch", "saved-memory", "cleanup", "reclaim-weather", "attack-paths",
	"no-controller", "saved-gang", "nodefull", "reclaim-local", "slow-clients",
}

// stories are the files of all stories, in the order in which they begin.
func stories(t *testing.T) []string {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	var first []string
	for _, name := range longest {
		i := slices.Index(files, filepath.Join("testdata", name+".txtar"))
		if i < 0 {
			t.Fatalf("the story %s is to begin first, and is not there", name)
		}
		first, files = append(first, files[i]), slices.Delete(files, i, i+1)
	}
	return append(first, files...)
}
