package host

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Group is the control group below which all hosts of a test have theirs, by
// their names.
func Group(directory string) string { return "/" + filepath.Base(directory) }

// groupRoots are the hierarchies of control groups.
func groupRoots() []string {
	roots, _ := filepath.Glob("/sys/fs/cgroup/*")
	return append(slices.DeleteFunc(roots, func(path string) bool {
		_, err := os.Stat(filepath.Join(path, "cgroup.procs"))
		return err != nil
	}), "/sys/fs/cgroup")
}

// groupsBelow are the directories of a control group and those in it, in every
// hierarchy, outer ones first.
func groupsBelow(name string) []string {
	var groups []string
	for _, root := range groupRoots() {
		_ = filepath.WalkDir(filepath.Join(root, name), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				groups = append(groups, path)
			}
			return nil
		})
	}
	return groups
}

// thawGroups lets frozen processes continue, so that they hear that they were
// killed: in a hierarchy of version 1 they do not before.
func thawGroups(name string) {
	for _, group := range groupsBelow(name) {
		for file, word := range map[string]string{"freezer.state": "THAWED", "cgroup.freeze": "0"} {
			path := filepath.Join(group, file)
			if _, err := os.Stat(path); err == nil {
				_ = os.WriteFile(path, []byte(word), 0)
			}
		}
	}
}

// RemoveGroups removes the control groups below one, which must be empty of
// processes, in every hierarchy. name begins with "/".
func RemoveGroups(name string) {
	groups := groupsBelow(name)
	slices.Reverse(groups) // those inside first
	for _, group := range groups {
		_ = os.Remove(group)
	}
}
