// Package bound bounds the memory of a process that reads what an enemy may have made, and
// says what happened when it reached that bound.
package bound

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Memory bounds that of this process: a few bytes of squashfs may say that they are
// many.
func Memory() error {
	const most = 1 << 30
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("bound the memory: %w", err)
	}
	return nil
}

// Explain says in a line why a process that reached the bound has ended: it can only say
// where it was.
func Explain(said string) string {
	begin, _, _ := strings.Cut(said, "\n")
	if strings.HasPrefix(begin, "fatal error: ") && strings.Contains(begin, "memory") || strings.HasPrefix(begin, "runtime: ") && strings.Contains(said, "out of memory") {
		return "the container image is broken: to read it takes more memory than goci may have (1 GiB)"
	}
	return said
}
