package checkpoint

import (
	"fmt"
	"math"
	"os"

	"github.com/gleaner-hpc/gleaner/checkpoint/procstatus"
)

// CRIU saves a tree in one user namespace, with one namespace of processes. What makes
// others, a container inside (bubblewrap, Apptainer), is known by its user namespace,
// because without one nobody in the tree may make any.

// lookForFirst finds process 1 of the tree, which is the one that is in the fewest
// namespaces of processes, and has number 1 in the last of them.
func (s *survey) lookForFirst(pids []int) {
	fewest := math.MaxInt
	for _, pid := range pids {
		status, err := procstatus.Read(procstatus.Dir(pid))
		if err != nil {
			continue
		}
		numbers, err := procstatus.Numbers(status)
		if n := len(numbers); err != nil || numbers[n-1] != 1 || n >= fewest {
			continue
		}
		if users, err := userNamespaceOf(pid); err == nil {
			fewest, s.users, s.depth = len(numbers), users, len(numbers)
		}
	}
}

// Nested answers a process that runs in a container inside the tree's, which Obstacles
// names too; false = there is none.
func Nested(tree Tree) (Obstacle, bool, error) {
	pids, err := tree.Procs()
	if err != nil {
		return Obstacle{}, false, err
	}
	s := new(survey)
	s.lookForFirst(pids)
	for _, pid := range pids {
		if s.nested(pid); len(s.found) > 0 {
			return s.found[0], true, nil
		}
	}
	return Obstacle{}, false, nil
}

// nested adds a process that runs in a container inside the tree's, if it is the first.
func (s *survey) nested(pid int) {
	users, err := userNamespaceOf(pid)
	if err != nil || s.users == "" || users == s.users || s.nests {
		return
	}
	before := len(s.found)
	defer func() { s.nests = len(s.found) > before }()
	s.add(pid, Obstacle{
		What:   "runs in a container that the job has made (a user namespace of its own, as of bubblewrap or Apptainer)",
		Remedy: "wait until that container has ended, or " + saveItself, Lasts: true,
	})
}

// numberOf is the number of a process in the namespace of the tree's process 1, also if it
// has one of its own.
func (s *survey) numberOf(status map[string]string) (int, error) {
	numbers, err := procstatus.Numbers(status)
	if err != nil {
		return 0, err
	}
	at := len(numbers) - 1
	if s.depth > 0 {
		at = min(at, s.depth-1)
	}
	return numbers[at], nil
}

func userNamespaceOf(pid int) (string, error) {
	return os.Readlink(fmt.Sprintf("/proc/%d/ns/user", pid))
}
