package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/checkpoint-restore/go-criu/v8/crit/images/pstree"

	"github.com/gleaner-hpc/gleaner/checkpoint/procstatus"
)

// tasks are processes with the number of their threads, by the number that
// they have inside.
type tasks map[int]int

// readTasks answers the processes of a frozen tree.
func readTasks(tree Tree) (tasks, error) {
	pids, err := tree.Procs()
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	found := make(tasks, len(pids))
	for _, pid := range pids {
		inside, err := procstatus.Innermost(procstatus.Dir(pid))
		if errors.Is(err, os.ErrNotExist) {
			continue // it was killed
		}
		if err != nil {
			return nil, err
		}
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("list threads: %w", err)
		}
		found[inside] = len(threads)
	}
	return found, nil
}

// compare makes sure that every process and thread is in an image. The image may
// also have zombies, which are no longer in any control group.
func (t tasks) compare(images string) error {
	dumped, err := imageTasks(images)
	if err != nil {
		return err
	}
	return t.missingIn(dumped)
}

func (t tasks) missingIn(dumped tasks) error {
	var missing []string
	for pid, threads := range t {
		switch have, ok := dumped[pid]; {
		case !ok:
			missing = append(missing, fmt.Sprintf("process %d is missing", pid))
		case have != threads:
			missing = append(missing, fmt.Sprintf("process %d has %d threads and not %d", pid, have, threads))
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("%w: %s", ErrIncomplete, strings.Join(missing[:min(len(missing), 5)], ", "))
	}
	return nil
}

// imageTasks reads which processes an image holds.
func imageTasks(images string) (tasks, error) {
	entries, err := readEntries[pstree.PstreeEntry](filepath.Join(images, treeImage))
	if err != nil {
		return nil, err
	}
	found := make(tasks, len(entries))
	for _, task := range entries {
		found[int(task.GetPid())] = len(task.GetThreads())
	}
	return found, nil
}

// treeImage has an entry for each process.
const treeImage = "pstree.img"
