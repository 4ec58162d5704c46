package container

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Host is a line of /etc/hosts.
type Host struct {
	Name     string
	Address  netip.Addr
	Address6 netip.Addr // too; the zero value = none
	First    bool       // whatever the host's file says of the name
}

// hostsPath is the file in which names are looked up first.
const hostsPath = "/etc/hosts"

// hostsFile makes a copy of the host's /etc/hosts, adds the nodes of the job's run,
// and answers its path. Every container has one, even if nothing
// is added: its image may resume where something is.
func hostsFile(s *Spec) (string, error) {
	path := filepath.Join(s.Dir, filepath.Base(hostsPath))
	content, err := readAccounts(hostsPath)
	if err != nil {
		return "", fmt.Errorf("supply %s: %w", hostsPath, err)
	}
	if err := os.WriteFile(path, addHosts(content, s.Hosts), 0o644); err != nil {
		return "", fmt.Errorf("supply %s: %w", hostsPath, err)
	}
	return path, os.Chmod(path, 0o644)
}

// addHosts adds those that content does not name. It leaves out what is not a name and
// an address: others wrote it.
func addHosts(content []byte, hosts []Host) []byte {
	known := map[string]bool{}
	for line := range bytes.Lines(content) {
		text, _, _ := strings.Cut(string(line), "#")
		if words := strings.Fields(text); len(words) > 1 {
			for _, name := range words[1:] {
				known[strings.ToLower(name)] = true
			}
		}
	}
	var first, last bytes.Buffer
	for _, h := range hosts {
		name := strings.ToLower(h.Name)
		if !h.Address.IsValid() || !isHostName(h.Name) || known[name] && !h.First {
			continue
		}
		known[name] = true
		to := &last
		if h.First {
			to = &first
		}
		fmt.Fprintf(to, "%s\t%s\n", h.Address.WithZone(""), h.Name)
		if h.Address6.IsValid() {
			fmt.Fprintf(to, "%s\t%s\n", h.Address6, h.Name)
		}
	}
	if n := len(content); n > 0 && content[n-1] != '\n' {
		content = append(content, '\n')
	}
	return append(append(first.Bytes(), content...), last.Bytes()...)
}

// isHostName says whether name can be in /etc/hosts.
func isHostName(name string) bool {
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_') {
			return false
		}
	}
	return name != "" && len(name) <= spec.MaxHostNameBytes
}
