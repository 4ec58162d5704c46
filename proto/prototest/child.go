package prototest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Child returns a child of a process whose command line, arguments separated by
// zero bytes, is so; 0 = it has none. It reads what the kernel says of this one
// process: who works for a moment only is met even where much else runs.
func Child(parent int, is func(commandLine string) bool) int {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	for _, path := range threads {
		text, _ := os.ReadFile(path)
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				continue
			}
			if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && is(string(line)) {
				return pid
			}
		}
	}
	return 0
}
