package pid1

import (
	"slices"
	"strings"
)

// Overlay answers base with the variables of each layer added: a later
// one replaces an earlier one of the same name, in its place. Entries without
// a name are dropped.
func Overlay(base []string, layers ...[]string) []string {
	size := len(base)
	for _, layer := range layers {
		size += len(layer)
	}
	result := make([]string, 0, size)
	index := make(map[string]int, size)
	for _, layer := range slices.Insert(layers, 0, base) {
		for _, entry := range layer {
			name, _, ok := strings.Cut(entry, "=")
			if !ok || name == "" {
				continue
			}
			if i, known := index[name]; known {
				result[i] = entry
				continue
			}
			index[name] = len(result)
			result = append(result, entry)
		}
	}
	return result
}

// Mirror answers env with every SLURM_NAME also as GLEANER_NAME.
func Mirror(env []string) []string {
	var mirrored []string
	for _, entry := range env {
		if rest, ok := strings.CutPrefix(entry, "SLURM_"); ok {
			mirrored = append(mirrored, "GLEANER_"+rest)
		}
	}
	return Overlay(env, mirrored)
}

// lookup answers the value of name in env.
func lookup(env []string, name string) string {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
