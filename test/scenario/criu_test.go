package scenario

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
)

// conditions are what stories ask for in brackets.
var conditions = map[string]func() bool{
	"criu":   sync.OnceValue(criuWorks),
	"munged": func() bool { return exist("/usr/sbin/munged") },
	"pmi2":   func() bool { return exist("/usr/include/slurm/pmi2.h") },
	// bin is where make has put gpmix, if it found its library.
	"openmpi": func() bool { return exist("/usr/bin/mpicc.openmpi", "../../bin/gpmix") },
}

func exist(paths ...string) bool {
	return !slices.ContainsFunc(paths, func(path string) bool { _, err := os.Stat(path); return err != nil })
}

func condition(name string) (bool, error) {
	is, known := conditions[name]
	if !known {
		return false, fmt.Errorf("no condition is called %q", name)
	}
	return is(), nil
}

// criuWorks reports whether this machine has a CRIU that gnoded would use.
func criuWorks() bool {
	for _, program := range []string{"/usr/local/lib/gleaner/criu/criu", "criu", "/usr/sbin/criu"} {
		if exec.Command(program, "check").Run() == nil {
			return true
		}
	}
	return false
}
