package jobspec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// placesWarnings says what will probably become of a job because of where it is to
// write, as far as that can be seen from here. Its node may see it otherwise, so
// the job is submitted all the same, as by sbatch.
func placesWarnings(job *pb.JobSpec, values option.Values) (warnings []string) {
	for _, long := range []string{OptChdir, OptOutput, OptError, OptInput} {
		if given := values.Text(long); given == "~" || strings.HasPrefix(given, "~/") {
			warnings = append(warnings, fmt.Sprintf("--%s=%s is a name that begins with the character ~, which a shell replaces only at the beginning of a word: type --%s=\"$HOME\"%s", long, given, long, given[1:]))
		}
	}
	output := job.StandardOutput
	if output == "" {
		output = "slurm-%j.out"
	}
	told := ""
	for _, pattern := range []string{output, job.StandardError} {
		if pattern == "" {
			continue
		}
		if text := cannotWrite(job.WorkDirectory, pattern); text != "" && text != told {
			warnings = append(warnings, text+": the job will fail if that is so on its node; name another file with --output")
			told = text
		}
	}
	return warnings
}

// cannotWrite says why a file cannot be written; "" when it can, or when nobody
// can tell here. The value of a pattern in a directory's name is not known yet.
func cannotWrite(directory, pattern string) string {
	path := pattern
	if !filepath.IsAbs(path) {
		path = filepath.Join(directory, path)
	}
	known, _, isPattern := strings.Cut(path, "%")
	place := filepath.Dir(known)
	if strings.HasSuffix(known, "/") {
		place = filepath.Clean(known)
	}
	if !isPattern {
		if mayWrite(path, unix.W_OK) {
			return ""
		}
		if _, err := os.Stat(path); err == nil {
			return fmt.Sprintf("you may not write to the output file %s here", path)
		}
	} else if rest := path[len(place):]; strings.Count(strings.TrimPrefix(rest, "/"), "/") > 0 {
		return "" // below a directory whose name is not known
	}
	if mayWrite(place, unix.W_OK|unix.X_OK) {
		return ""
	}
	return fmt.Sprintf("you may not write to the directory of the output, %s, here", place)
}

// mayWrite is true where that is not known, too.
func mayWrite(path string, mode uint32) bool {
	err := unix.Faccessat(unix.AT_FDCWD, path, mode, unix.AT_EACCESS)
	return !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EROFS) && !errors.Is(err, unix.EPERM) &&
		!(errors.Is(err, unix.ENOENT) && mode == unix.W_OK)
}
