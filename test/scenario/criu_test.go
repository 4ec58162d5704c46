package scenario

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
)

// conditions are what stories ask for in brackets.
var conditions = map[string]func() bool{
	"criu":   sync.OnceValue(criuWorks),
	"munged": func() bool { _, err := os.Stat("/usr/sbin/munged"); return err == nil },
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
