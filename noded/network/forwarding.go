package network

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Packets of jobs pass through the node, and so do the answers, which arrive at the
// node's other interfaces. An interface lets packets pass only if its setting
// "forwarding" says so. On a node that is no router, the first job sets that, and the last
// one takes it back. Meanwhile rules see to it that nothing else passes. They stand twice: in
// each job's table (Plan.Guarded), which a reload of the host's firewall does not touch, and
// in a table of the node, which stays when the supervisors of all jobs are killed.

// stateDir is where it is noted for which interfaces that was set.
const stateDir = "/run/gleaner/network"

// forwardings is that note, locked. It is one for each network namespace, because several
// node daemons may share one.
type forwardings struct {
	file *os.File
	set  []string // interfaces
}

// openForwardings reads the note, and waits for whoever has it.
func openForwardings() (*forwardings, error) {
	file, err := lock("forwarding")
	if err != nil {
		return nil, fmt.Errorf("note which interfaces let packets of jobs pass: %w", err)
	}
	const most = 64 << 10
	text := make([]byte, most)
	n, _ := file.ReadAt(text, 0)
	return &forwardings{file: file, set: strings.Fields(string(text[:n]))}, nil
}

// lock opens a file that is one for each network namespace, and waits for whoever has it
// locked.
func lock(name string) (*os.File, error) {
	var own unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &own); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(stateDir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(stateDir, fmt.Sprintf("%s-%d", name, own.Ino))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return file, nil
}

func (f *forwardings) close() { f.file.Close() }

// write notes the interfaces.
func (f *forwardings) write(set []string) error {
	text := strings.Join(set, "\n")
	_, err := f.file.WriteAt([]byte(text), 0)
	if err = errors.Join(err, f.file.Truncate(int64(len(text)))); err != nil {
		return fmt.Errorf("note which interfaces let packets of jobs pass: %w", err)
	}
	f.set = set
	return nil
}

func forwardingOf(link string) string { return "/proc/sys/net/ipv4/conf/" + link + "/forwarding" }

// forward lets packets pass at the node's uplinks. From then on set names the interfaces
// that do so for jobs only. The note stays locked until the job has its link, so that
// nobody takes it back meanwhile.
func (f *forwardings) forward(uplinks []string) error {
	set := slices.Clone(f.set)
	var change []string
	for _, link := range uplinks {
		now, err := os.ReadFile(forwardingOf(link))
		if err == nil && strings.TrimSpace(string(now)) == "0" {
			change = append(change, link)
			if !slices.Contains(set, link) {
				set = append(set, link)
			}
		}
	}
	if len(change) == 0 {
		return nil
	}
	if err := f.write(set); err != nil { // first: what is set is known to be set
		return err
	}
	if err := guard(set); err != nil {
		return err
	}
	for _, link := range change {
		// One that is gone by now is no way out.
		if err := os.WriteFile(forwardingOf(link), []byte("1"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("let packets of jobs pass at %s: %w", link, err)
		}
	}
	return nil
}

// uplinks are the interfaces to which the node's routes lead.
func (s *side) uplinks() (names []string, err error) {
	list, err := s.routes()
	if err != nil {
		return nil, err
	}
	for _, r := range list {
		link, err := s.LinkByIndex(r.LinkIndex)
		if err != nil || link.Attrs().Name == "lo" || strings.ContainsAny(link.Attrs().Name, "/") || slices.Contains(names, link.Attrs().Name) {
			continue
		}
		names = append(names, link.Attrs().Name)
	}
	return names, nil
}

// Tidy takes back what was set for jobs on this node if no job has a link any more.
func Tidy() error {
	node, err := nodeSide()
	if err != nil {
		return err
	}
	defer node.close()
	return node.stopForwarding()
}

func (s *side) stopForwarding() error {
	note, err := openForwardings()
	if err != nil {
		return err
	}
	defer note.close()
	if len(note.set) == 0 {
		return nil
	}
	links, err := s.links()
	if err != nil {
		return fmt.Errorf("read the node's interfaces: %w", err)
	}
	for _, l := range links {
		if isOurs(l) {
			return nil
		}
	}
	for _, link := range note.set {
		if err := os.WriteFile(forwardingOf(link), []byte("0"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("let no packets pass at %s again: %w", link, err)
		}
	}
	if err := guard(nil); err != nil {
		return err
	}
	return note.write(nil)
}

// passesIPv6 says whether the node passes on IPv6. It is not made to: it would then no
// longer hear its own routers.
func passesIPv6() bool {
	text, err := os.ReadFile("/proc/sys/net/ipv6/conf/all/forwarding")
	return err == nil && strings.TrimSpace(string(text)) == "1"
}
