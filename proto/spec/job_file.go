package spec

import (
	"path/filepath"
	"strings"
)

// DefaultOutput is the pattern of a job that names no file for its output.
func DefaultOutput(isArray bool) string {
	if isArray {
		return "slurm-%A_%a.out"
	}
	return "slurm-%j.out"
}

// JobFile is where a file of a job's script lies on its host: a pattern that does not begin
// with / begins at the work directory.
func JobFile(pattern, workDirectory string, names FileNames) (string, error) {
	path, err := ExpandFileName(pattern, names)
	if err != nil {
		return "", err
	}
	return BelowWorkDirectory(path, workDirectory), nil
}

// BelowWorkDirectory makes a path absolute. It is not joined with filepath.Join: what ".."
// means after a link, and that a name ends in a slash, is the kernel's to judge.
func BelowWorkDirectory(path, workDirectory string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return strings.TrimSuffix(workDirectory, "/") + "/" + path
}
