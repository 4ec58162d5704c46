package spec

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// MaxMounts is how many mounts a job may ask for.
const MaxMounts = 64

// ContainerMount is one of --container-mounts.
type ContainerMount struct {
	Source, Target string
	ReadOnly       bool
}

// ParseMounts reads SOURCE[:TARGET[:ro|rw]][,...]. A source without a target is seen at
// its own path.
func ParseMounts(text string) ([]ContainerMount, error) {
	var mounts []ContainerMount
	for part := range strings.SplitSeq(text, ",") {
		words := strings.Split(part, ":")
		m := ContainerMount{Source: words[0]}
		switch {
		case len(words) > 3:
			return nil, fmt.Errorf("%q: type SOURCE:TARGET[:ro]", part)
		case len(words) > 1 && words[1] != "":
			m.Target = words[1]
		default:
			m.Target = m.Source
		}
		if len(words) == 3 {
			flags := strings.Split(words[2], "+")
			for _, flag := range flags {
				if flag != "ro" && flag != "rw" || slices.Contains(flags, "ro") && slices.Contains(flags, "rw") {
					return nil, fmt.Errorf("%q: %q is no flag of a mount: type ro or rw", part, words[2])
				}
			}
			m.ReadOnly = slices.Contains(flags, "ro")
		}
		if err := m.check(); err != nil {
			return nil, err
		}
		mounts = append(mounts, m)
	}
	return mounts, CheckMounts(mounts)
}

func (m *ContainerMount) check() error {
	for _, p := range []string{m.Source, m.Target} {
		if !path.IsAbs(p) || len(p) > MaxPathBytes || strings.ContainsFunc(p, isControl) {
			return fmt.Errorf("%.128q is no absolute path", p)
		}
	}
	if m.Target != path.Clean(m.Target) || m.Target == "/" {
		return fmt.Errorf("%.128q: a target has no '..' and no '/' at its end, and is not the root itself", m.Target)
	}
	return nil
}

// CheckMounts refuses what ParseMounts does not make.
func CheckMounts(mounts []ContainerMount) error {
	if len(mounts) > MaxMounts {
		return fmt.Errorf("%d mounts are more than %d", len(mounts), MaxMounts)
	}
	seen := map[string]bool{}
	for _, m := range mounts {
		if err := m.check(); err != nil {
			return err
		}
		if seen[m.Target] {
			return fmt.Errorf("two mounts have the target %.128q", m.Target)
		}
		seen[m.Target] = true
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
