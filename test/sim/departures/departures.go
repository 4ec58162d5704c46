// Package departures reads when nodes of a cloud joined and left, and says for a few nodes
// of a simulated day when they are away.
//
// Contract: Read and ReadAll read files and nothing else. Absences is a function of its
// arguments: the same seed gives the same times. Two formats are known, both as plain text
// or packed with gzip:
//
//	60000,add,node7               milliseconds, add or remove, name of a node
//	2021-12-10, 13:07:45, 80      date, time, how many nodes are there
package departures

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrFormat is returned for a file that is in neither of the two formats.
var ErrFormat = errors.New("it says nowhere when nodes join and leave")

// Trace is when nodes joined and left.
type Trace struct {
	Name   string
	events []event       // ascending
	length time.Duration // after which it begins again
	most   int           // nodes that were there at once
}

type event struct {
	at    time.Duration
	node  string
	joins bool
}

// Absence is when a node is away.
type Absence struct {
	Node       int // from 0
	From, Till time.Duration
}

// ReadAll reads a file, or all files of a folder.
func ReadAll(path string) ([]*Trace, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	paths := []string{path}
	if info.IsDir() {
		if paths, err = filepath.Glob(filepath.Join(path, "*")); err != nil {
			return nil, err
		}
	}
	var all []*Trace
	for _, one := range paths {
		trace, err := readFile(one)
		if err != nil {
			return nil, err
		}
		all = append(all, trace)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: %w: there is no file in it", path, ErrFormat)
	}
	return all, nil
}

// maxBytes bounds a file, unpacked.
const maxBytes = 64 << 20

func readFile(path string) (*Trace, error) {
	packed, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	text := packed
	if bytes.HasPrefix(packed, []byte{0x1f, 0x8b}) {
		unpacker, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if text, err = io.ReadAll(io.LimitReader(unpacker, maxBytes)); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	trace, err := Read(filepath.Base(path), text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return trace, nil
}

// Read reads the text of a file.
func Read(name string, text []byte) (*Trace, error) {
	t := &Trace{Name: name}
	counts := counts{t: t}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for number := 1; lines.Scan(); number++ {
		words := strings.Split(strings.TrimSpace(lines.Text()), ",")
		for i := range words {
			words[i] = strings.TrimSpace(words[i])
		}
		var err error
		switch {
		case len(words) == 1 && words[0] == "":
		case len(words) != 3:
			err = ErrFormat
		case words[1] == "add" || words[1] == "remove":
			err = t.named(words)
		default:
			err = counts.line(words)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(t.events) == 0 {
		return nil, ErrFormat
	}
	slices.SortStableFunc(t.events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	t.measure()
	return t, nil
}

// named is a line about one node.
func (t *Trace) named(words []string) error {
	ms, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil || ms < 0 {
		return fmt.Errorf("%w: %q is no number of milliseconds", ErrFormat, words[0])
	}
	t.events = append(t.events, event{time.Duration(ms) * time.Millisecond, words[2], words[1] == "add"})
	return nil
}

// counts makes joins and departures of how many nodes are there: those leave that have
// been there for longest.
type counts struct {
	t     *Trace
	begin time.Time
	last  time.Duration
	there []string
	named int
}

func (c *counts) line(words []string) error {
	at, err := time.Parse("2006-01-02 15:04:05", words[0]+" "+words[1])
	count, countErr := strconv.Atoi(words[2])
	if err := errors.Join(err, countErr); err != nil || count < 0 || count > 1_000_000 {
		return fmt.Errorf("%w: %q is no time with a number of nodes", ErrFormat, strings.Join(words, ", "))
	}
	if c.begin.IsZero() {
		c.begin = at
	}
	c.last = max(c.last, at.Sub(c.begin)) // it was written by several programs at once
	for ; len(c.there) < count; c.named++ {
		name := fmt.Sprintf("instance%d", c.named)
		c.there = append(c.there, name)
		c.t.events = append(c.t.events, event{c.last, name, true})
	}
	for _, name := range c.there[:len(c.there)-count] {
		c.t.events = append(c.t.events, event{c.last, name, false})
	}
	c.there = c.there[len(c.there)-count:]
	return nil
}

// measure sets how long it is, and how many nodes are there at once.
func (t *Trace) measure() {
	there := map[string]bool{}
	for _, e := range t.events {
		if e.joins {
			there[e.node] = true
		} else {
			delete(there, e.node)
		}
		t.most = max(t.most, len(there))
	}
	t.length = t.events[len(t.events)-1].at + time.Minute
}

// Absences are when some nodes are away between two times: they stand for as many of the
// trace's, chosen by the seed, as does the moment of the trace with which it begins. A
// trace that is too short begins again.
func (t *Trace) Absences(seed uint64, nodes int, from, until time.Duration) []Absence {
	rng := rand.New(rand.NewPCG(seed, 7))
	s := stage{away: make([]time.Duration, nodes), by: map[string]int{}}
	for i := range s.away {
		s.away[i] = never
	}
	// Before the beginning: who is there then.
	offset := time.Duration(rng.Int64N(int64(t.length)))
	for _, e := range t.events {
		if e.at <= offset {
			t.play(&s, seed, 0, e, from)
		}
	}
	for i := range s.away {
		if !s.taken(i) {
			s.away[i] = from + time.Duration(rng.Int64N(int64(10*time.Minute)))
		}
	}
	for round := uint64(0); ; round++ {
		for _, e := range t.events {
			at := from + e.at - offset + time.Duration(round)*t.length
			switch {
			case at >= until:
				return s.finish(until)
			case at > from:
				t.play(&s, seed, round, e, at)
			}
		}
	}
}

// never is how long a node is away that is there.
const never = time.Duration(-1)

// stage is which nodes are there.
type stage struct {
	away []time.Duration // since when, by node; never = it is there
	by   map[string]int  // the node of one that is there in the trace
	all  []Absence
}

func (s *stage) taken(node int) bool {
	for _, other := range s.by {
		if other == node {
			return true
		}
	}
	return false
}

// play has one node of the trace join or leave, if one of the day stands for it.
func (t *Trace) play(s *stage, seed, round uint64, e event, at time.Duration) {
	node, there := s.by[e.node]
	switch {
	case e.joins && !there && t.chosen(seed, round, e.node, len(s.away)):
		for node := range s.away {
			if s.taken(node) {
				continue
			}
			s.by[e.node] = node
			if since := s.away[node]; since != never && since < at {
				s.all = append(s.all, Absence{node, since, at})
			}
			s.away[node] = never
			return
		}
	case !e.joins && there:
		delete(s.by, e.node)
		s.away[node] = at
	}
}

// chosen says whether one of a trace's nodes is among those for which the day has any.
func (t *Trace) chosen(seed, round uint64, name string, nodes int) bool {
	sum := fnv.New64a()
	fmt.Fprint(sum, seed, round, name)
	return sum.Sum64()%uint64(max(t.most, 1)) < uint64(nodes)
}

// finish ends the absences that last.
func (s *stage) finish(until time.Duration) []Absence {
	for node, since := range s.away {
		if since != never && since < until {
			s.all = append(s.all, Absence{node, since, until})
		}
	}
	slices.SortStableFunc(s.all, func(a, b Absence) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Node, b.Node))
	})
	return s.all
}
