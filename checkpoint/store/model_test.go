package store

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// modelDisk is a disk in memory that stops at any operation, and of which after
// a loss of power only that is sure to be there which was synced: the bytes of
// synced files, and the names of synced directories. What else is there is a
// matter of chance, but the names of one directory change in order, and a
// renaming happens in both directories or in none.
type modelDisk struct {
	mu      sync.Mutex
	root    *node
	changes []change
	now     time.Time
	inodes  uint64

	count   int           // operations so far
	stopAt  int           // from this one on nothing works any more; 0 = never
	failAt  int           // this one fails; 0 = none
	failure error         // with which
	holdAt  int           // this one does not return …
	hold    chan struct{} // … before this is closed,
	reached func()        // and calls this first
	noLinks bool          // like a file system that has none
}

var errStopped = errors.New("the machine has stopped")

type node struct {
	inode   uint64
	names   map[string]*node // of a directory; nil = a file
	data    []byte
	whole   bool // data is synced
	links   uint64
	changed time.Time
}

// change is a change of names: in one directory, or in two for a renaming.
type change struct {
	in    [2]*node // the second is nil but for a renaming
	name  [2]string
	node  *node // nil = the name goes
	moved bool
	sure  bool
}

func newModelDisk() *modelDisk {
	return &modelDisk{root: &node{inode: 1, names: map[string]*node{}}, now: time.Unix(1700000000, 0), inodes: 1}
}

// step counts an operation and says how it goes.
func (d *modelDisk) step() error {
	d.mu.Lock()
	d.count++
	count := d.count
	d.mu.Unlock()
	if count == d.holdAt {
		d.reached()
		<-d.hold
	}
	if d.stopAt > 0 && count >= d.stopAt {
		return errStopped
	}
	if count == d.failAt {
		return d.failure
	}
	return nil
}

func (d *modelDisk) find(name string) (*node, error) {
	at := d.root
	for _, element := range strings.Split(path.Clean("/"+name), "/")[1:] {
		if element == "" {
			continue
		}
		next, is := at.names[element]
		if !is {
			return nil, &fs.PathError{Op: "find", Path: name, Err: fs.ErrNotExist}
		}
		at = next
	}
	return at, nil
}

// do runs an operation on the directory that name lies in.
func (d *modelDisk) do(name string, operation func(in *node, last string) error) error {
	if err := d.step(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	in, err := d.find(path.Dir(name))
	if err != nil {
		return err
	}
	if err := operation(in, path.Base(name)); err != nil {
		return &fs.PathError{Op: "change", Path: name, Err: err}
	}
	return nil
}

func (d *modelDisk) add(in *node, name string, n *node) error {
	if _, is := in.names[name]; is {
		return unix.EEXIST
	}
	in.names[name], in.changed = n, d.now
	n.links++
	d.changes = append(d.changes, change{in: [2]*node{in}, name: [2]string{name}, node: n})
	return nil
}

func (d *modelDisk) newNode(directory bool) *node {
	d.inodes++
	n := &node{inode: d.inodes, changed: d.now}
	if directory {
		n.names = map[string]*node{}
	}
	return n
}

func (d *modelDisk) MakeDirectory(name string) error {
	return d.do(name, func(in *node, last string) error { return d.add(in, last, d.newNode(true)) })
}

func (d *modelDisk) Link(old, name string) error {
	return d.do(name, func(in *node, last string) error {
		n, err := d.find(old)
		if err != nil {
			return err
		}
		if d.noLinks {
			return unix.EPERM
		}
		return d.add(in, last, n)
	})
}

func (d *modelDisk) Rename(old, name string) error {
	return d.do(name, func(in *node, last string) error {
		from, err := d.find(path.Dir(old))
		if err != nil {
			return err
		}
		n, is := from.names[path.Base(old)]
		if !is {
			return unix.ENOENT
		}
		if there, is := in.names[last]; is && len(there.names) > 0 {
			return unix.ENOTEMPTY
		}
		delete(from.names, path.Base(old))
		in.names[last] = n
		d.changes = append(d.changes, change{in: [2]*node{in, from}, name: [2]string{last, path.Base(old)}, node: n, moved: true})
		return nil
	})
}

func (d *modelDisk) remove(name string, directory bool) error {
	return d.do(name, func(in *node, last string) error {
		n, is := in.names[last]
		switch {
		case !is:
			return unix.ENOENT
		case directory != (n.names != nil):
			return unix.EINVAL
		case len(n.names) > 0:
			return unix.ENOTEMPTY
		}
		delete(in.names, last)
		n.links--
		d.changes = append(d.changes, change{in: [2]*node{in}, name: [2]string{last}})
		return nil
	})
}

func (d *modelDisk) Remove(name string) error          { return d.remove(name, false) }
func (d *modelDisk) RemoveDirectory(name string) error { return d.remove(name, true) }

func (d *modelDisk) Names(name string) (names []string, err error) {
	return names, d.on(name, func(n *node) error {
		for name := range n.names {
			names = append(names, name)
		}
		return nil
	})
}

// on runs an operation on a node itself.
func (d *modelDisk) on(name string, operation func(*node) error) error {
	if err := d.step(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.find(name)
	if err != nil {
		return err
	}
	return operation(n)
}

func (d *modelDisk) Status(name string) (s status, err error) {
	return s, d.on(name, func(n *node) error {
		s = status{Directory: n.names != nil, Bytes: int64(len(n.data)), Inode: n.inode, Links: n.links, Changed: n.changed}
		return nil
	})
}

func (d *modelDisk) SyncDirectory(name string) error {
	return d.on(name, func(n *node) error {
		for i := range d.changes {
			if d.changes[i].in[0] == n || d.changes[i].in[1] == n {
				d.changes[i].sure = true
			}
		}
		return nil
	})
}

func (d *modelDisk) Touch(name string) error {
	return d.on(name, func(n *node) error { n.changed = d.now; return nil })
}

func (d *modelDisk) Free() (int64, error) { return 1 << 40, d.step() }

func (d *modelDisk) Create(name string) (newFile, error) {
	n := d.newNode(false)
	err := d.do(name, func(in *node, last string) error { return d.add(in, last, n) })
	return &modelFile{d: d, n: n}, err
}

func (d *modelDisk) Open(name string) (oldFile, error) {
	f := &modelFile{d: d}
	return f, d.on(name, func(n *node) error { f.n = n; return nil })
}

type modelFile struct {
	d *modelDisk
	n *node
}

func (f *modelFile) Write(data []byte) (int, error) {
	if err := f.d.step(); err != nil {
		return 0, err
	}
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.n.data, f.n.whole = append(f.n.data, data...), false
	return len(data), nil
}

func (f *modelFile) Push() error { return f.d.step() }

func (f *modelFile) Sync() error {
	if err := f.d.step(); err != nil {
		return err
	}
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.n.whole = true
	return nil
}

func (f *modelFile) ReadAt(into []byte, at int64) (int, error) {
	if err := f.d.step(); err != nil {
		return 0, err
	}
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if at > int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(into, f.n.data[at:])
	if n < len(into) {
		return n, io.EOF
	}
	return n, nil
}

func (f *modelFile) ReadDirect(into []byte, at int64) (int, error) { return f.ReadAt(into, at) }

func (f *modelFile) Size() (int64, error) { return int64(len(f.n.data)), f.d.step() }
func (f *modelFile) Forget(int64)         {}
func (f *modelFile) Close() error         { return nil }

// restart answers the disk as another process finds it.
func (d *modelDisk) restart() *modelDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &modelDisk{root: d.root, changes: d.changes, now: d.now.Add(time.Hour), inodes: d.inodes}
}

// losePower answers the disk as it is found after a loss of power.
func (d *modelDisk) losePower(r *rand.Rand) *modelDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	// What is sure makes sure what came before in the same directories.
	sure := map[*node]bool{}
	for i := len(d.changes) - 1; i >= 0; i-- {
		c := &d.changes[i]
		if c.sure || sure[c.in[0]] || c.in[1] != nil && sure[c.in[1]] {
			c.sure = true
			sure[c.in[0]] = true
			if c.in[1] != nil {
				sure[c.in[1]] = true
			}
		}
	}
	after := &modelDisk{root: &node{inode: 1, names: map[string]*node{}}, now: d.now.Add(time.Hour), inodes: d.inodes}
	copies := map[*node]*node{d.root: after.root}
	copied := func(n *node) *node {
		if copies[n] == nil {
			c := &node{inode: n.inode, changed: n.changed}
			switch {
			case n.names != nil:
				c.names = map[string]*node{}
			case n.whole:
				c.data, c.whole = n.data, true
			default:
				c.data = append([]byte(nil), n.data[:r.IntN(len(n.data)+1)]...)
			}
			copies[n] = c
		}
		return copies[n]
	}
	stuck := map[*node]bool{} // directories in which nothing later is there
	for i := range d.changes {
		c := &d.changes[i]
		held := stuck[c.in[0]] || c.in[1] != nil && stuck[c.in[1]]
		if !c.sure && (held || r.IntN(3) == 0) {
			stuck[c.in[0]] = true
			if c.in[1] != nil {
				stuck[c.in[1]] = true
			}
			continue
		}
		in := copied(c.in[0])
		if c.moved {
			delete(copied(c.in[1]).names, c.name[1])
		}
		if c.node == nil {
			if n := in.names[c.name[0]]; n != nil {
				n.links--
			}
			delete(in.names, c.name[0])
			continue
		}
		n := copied(c.node)
		in.names[c.name[0]] = n
		if !c.moved {
			n.links++
		}
	}
	return after
}
