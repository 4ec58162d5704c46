package roots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/oci/manifest"
	"github.com/gleaner-hpc/gleaner/oci/ref"
)

// Root is an image that is in the cache, and stays there until it is closed.
type Root struct {
	Image  string    // pinned, as its user named it
	Digest string    // that pins it
	Config v1.Config // what it says of its programs
	Layers []string  // directories, the lowest first
	held   []*use
}

// Close gives the layers back.
func (r *Root) Close() {
	for _, h := range r.held {
		h.Close()
	}
	r.held = nil
}

// Progress is told what is being done.
type Progress func(text string)

// patience bounds a pull, whatever the registry does.
const patience = 2 * time.Hour

// otherPatience is how long a job waits for a layer that another one pulls. That may come
// from a registry that somebody made slow.
var otherPatience = 20 * time.Second

// makeLock follows the name of the lock of who makes a layer.
const makeLock = ".make"

// pulls is how many layers of an image come at once.
const pulls = 3

// Root answers a pinned image for a user, and pulls what the cache lacks of it, or what
// that user has never been given. An *Error is the job's fault.
func (c *Cache) Root(ctx context.Context, u *User, r ref.Ref, tell Progress) (_ *Root, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := c.makeDirs(); err != nil {
		return nil, err
	}
	documents, image, err := c.documents(ctx, u, r, tell)
	if err != nil {
		return nil, err
	}
	root := &Root{Image: r.String(), Digest: r.Digest, Config: image.Config.Config, Layers: make([]string, len(image.Layers))}
	defer func() {
		if err != nil {
			root.Close()
		}
	}()
	pull := &pull{Cache: c, user: u, ref: r, tell: tell, of: len(image.Layers)}
	if err := pull.all(ctx, image.Layers); err != nil {
		root.held = pull.held
		return nil, err
	}
	root.held = pull.held
	for i, l := range image.Layers {
		root.Layers[i] = c.path(layersDir, l.DiffID.Hex, rootName)
	}
	now := time.Now()
	for _, h := range root.held {
		_ = os.Chtimes(h.Name(), now, now)
	}
	return root, documents.keep(c, u)
}

// kept are an image's documents, and for whom they came.
type kept struct {
	Image     string             `json:"image"`
	Documents manifest.Documents `json:"documents"`
	Users     []uint32           `json:"users"`
	Names     map[uint32]string  `json:"names"` // as each of them named it
	new       bool               // they are not in the cache for this user
}

func (c *Cache) imagePath(pinned string) string {
	return c.path(imagesDir, strings.TrimPrefix(pinned, "sha256:")+documentsSuffix)
}

// documents reads them from the cache, or as the user from where the image is.
func (c *Cache) documents(ctx context.Context, u *User, r ref.Ref, tell Progress) (*kept, *manifest.Image, error) {
	k := new(kept)
	text, err := os.ReadFile(c.imagePath(r.Digest))
	if err == nil && json.Unmarshal(text, k) == nil && slices.Contains(k.Users, u.UID) {
		if image, err := manifest.Follow(k.Documents, r.Digest, runtime.GOARCH); err == nil {
			return k, image, nil
		}
	}
	tell("asking for container image " + r.Place())
	var out clippedDocuments
	p, err := c.fetcher(ctx, u, &out, "documents", r.String(), runtime.GOARCH)
	if err != nil {
		return nil, nil, err
	}
	if err := p.wait(); err != nil {
		return nil, nil, c.fault(ctx, r, err)
	}
	k.Documents, k.Image, k.new = nil, r.String(), true
	if k.Names == nil {
		k.Names = map[uint32]string{}
	}
	k.Names[u.UID] = r.String()
	if err := json.Unmarshal(out.Bytes(), &k.Documents); err != nil {
		return nil, nil, &Error{r.Place(), fmt.Errorf("%w: %w", manifest.ErrBroken, err)}
	}
	image, err := manifest.Follow(k.Documents, r.Digest, runtime.GOARCH)
	if err != nil {
		return nil, nil, &Error{r.Place(), err}
	}
	return k, image, nil
}

// keep writes documents into the cache, once all layers are there.
func (k *kept) keep(c *Cache, u *User) error {
	if !k.new {
		return nil
	}
	r, err := ref.ParsePinned(k.Image)
	if err != nil {
		return err
	}
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	users := &record{Users: k.Users}
	users.admit(u.UID)
	k.Users = users.Users
	maps.DeleteFunc(k.Names, func(uid uint32, _ string) bool { return !slices.Contains(k.Users, uid) })
	c.bound()
	return writeJSON(c.imagePath(r.Digest), k)
}

// fault says whose fault it is that goci ended.
func (c *Cache) fault(ctx context.Context, r ref.Ref, err error) error {
	var said *saidError
	switch {
	case ctx.Err() != nil:
		return &Error{r.Place(), fmt.Errorf("it did not come within %v: %w", patience, ctx.Err())}
	case errors.As(err, &said):
		return &Error{r.Place(), err}
	}
	return err
}

// pull brings the layers of one image for one user.
type pull struct {
	*Cache
	user *User
	ref  ref.Ref
	tell Progress
	of   int

	mu   sync.Mutex
	done int
	held []*use
}

func (p *pull) all(ctx context.Context, layers []manifest.Layer) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(pulls)
	seen := map[string]bool{}
	for _, l := range layers {
		if seen[l.DiffID.Hex] {
			continue // two layers of one image may be the same
		}
		seen[l.DiffID.Hex] = true
		group.Go(func() error { return p.one(ctx, l) })
	}
	return group.Wait()
}

// one makes sure that a layer is there, and holds it.
func (p *pull) one(ctx context.Context, l manifest.Layer) error {
	hex := l.DiffID.Hex
	until := time.Now().Add(otherPatience)
	for {
		held, err := p.take(ctx, hex, unix.LOCK_SH, true)
		if err != nil {
			return p.fault(ctx, p.ref, err)
		}
		r, there := p.readRecord(hex)
		if there && !slices.Contains(r.Users, p.user.UID) {
			if err := p.prove(ctx, l); err != nil {
				held.Close()
				return err
			}
			if err := p.change(hex, func(r *record) { r.admit(p.user.UID) }); err != nil {
				held.Close()
				return err
			}
		}
		if there {
			p.mu.Lock()
			p.held = append(p.held, held)
			p.done++
			p.mu.Unlock()
			return nil
		}
		held.Close()
		making, err := p.take(ctx, hex+makeLock, unix.LOCK_EX, false)
		switch {
		case err != nil:
			return err
		case making == nil && time.Now().Before(until): // another job makes it at this moment
			select {
			case <-ctx.Done():
				return p.fault(ctx, p.ref, ctx.Err())
			case <-time.After(lookAgain):
			}
			continue
		}
		if _, there := p.readRecord(hex); !there {
			err = p.make(ctx, l)
		}
		if making != nil {
			_ = os.Remove(making.Name())
			making.Close()
		}
		if err != nil {
			return err
		}
	}
}

func (p *pull) say(what string, l manifest.Layer) {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	size := ""
	if l.Size > 0 {
		size = fmt.Sprintf(" of %d MB", (l.Size+999_999)/1_000_000)
	}
	p.tell(fmt.Sprintf("%s container image %s: %d of %d layers are there, one%s comes", what, p.ref.Place(), done, p.of, size))
}

// make pulls a layer, unpacks it and puts it into the cache.
func (p *pull) make(ctx context.Context, l manifest.Layer) error {
	const least, ratio, growth, most = 64 << 20, 3, 4, 8 // most: what it says of its size takes a part of the cache
	p.say("pulling", l)
	want := least + min(ratio*min(l.Size, p.Limit), p.Limit/most)
	for {
		err := p.tryMake(ctx, l, want)
		if errors.Is(err, errReserved) {
			select {
			case <-ctx.Done():
				return p.fault(ctx, p.ref, ctx.Err())
			case <-time.After(lookAgain):
			}
			continue
		}
		var said *saidError
		if !errors.As(err, &said) || said.status != exitRoom {
			return p.fault(ctx, p.ref, err)
		}
		if want >= p.Limit {
			return &Error{p.ref.Place(), fmt.Errorf("%w: %s; the cache may have %d bytes, which image_cache in gnoded.toml raises", ErrFull, said.text, p.Limit)}
		}
		want = min(want*growth, p.Limit)
	}
}

// errReserved is returned for a layer for which there may be room once those are there
// that come at this moment.
var errReserved = errors.New("others have reserved the room")

func (p *pull) tryMake(ctx context.Context, l manifest.Layer, want int64) (err error) {
	dir, got, others, err := p.reserve(l.DiffID.Hex, want)
	switch {
	case errors.Is(err, ErrFull) && others:
		return errReserved
	case errors.Is(err, ErrFull):
		return &Error{p.ref.Place(), fmt.Errorf("%w: all of its %d bytes are used by jobs that run: try again later, or raise image_cache in gnoded.toml", ErrFull, p.Limit)}
	case err != nil:
		return err
	}
	defer func() {
		unflock(dir)
		p.sweep() // it has gone into the cache, or is of no use
	}()
	root := filepath.Join(dir.Name(), rootName)
	if err := errors.Join(os.Mkdir(root, 0o755), os.Chown(root, p.FirstID, p.FirstID), os.Chmod(root, 0o755)); err != nil {
		return err
	}
	top, err := os.Open(root)
	if err != nil {
		return err
	}
	defer top.Close()
	r := record{Boot: bootID(), Users: []uint32{p.user.UID}}
	if err := p.unpack(ctx, l, top, got, &r); err != nil {
		var said *saidError
		if errors.As(err, &said) && said.status == exitRoom && got < min(want, p.Limit) {
			if others {
				return errReserved
			}
			return &Error{p.ref.Place(), fmt.Errorf("%w: %s, and jobs that run use the rest: try again later, or raise image_cache in gnoded.toml", ErrFull, said.text)}
		}
		return err
	}
	return p.publish(dir, l.DiffID.Hex, r)
}

// mostFiles is how many files so many bytes may be.
func mostFiles(bytes int64) int64 { return min(max(bytes/4096, 250_000), 4_000_000) }

// unpack lets the layer's bytes flow from the process that is the user into the one that
// is nobody.
func (p *pull) unpack(ctx context.Context, l manifest.Layer, into *os.File, most int64, r *record) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, to, err := os.Pipe()
	if err != nil {
		return err
	}
	_, _ = unix.FcntlInt(to.Fd(), unix.F_SETPIPE_SZ, 1<<20)
	var size clipped
	unpacking, err := p.unpacker(ctx, into, from, &size, "unpack", l.Blob.Hex, l.DiffID.Hex, fmt.Sprint(most), fmt.Sprint(mostFiles(most)))
	from.Close()
	if err != nil {
		to.Close()
		return err
	}
	fetching, err := p.fetcher(ctx, p.user, to, "layer", p.ref.String(), l.Blob.String())
	to.Close()
	if err != nil {
		cancel()
		_ = unpacking.wait()
		return err
	}
	fetchErr := make(chan error, 1)
	go func() { fetchErr <- fetching.wait() }()
	unpackErr := unpacking.wait()
	var said *saidError
	if errors.As(unpackErr, &said) && said.status != 1 {
		// A layer that ended too early is the fetcher's to explain, if it can within a moment.
		select {
		case err := <-fetchErr:
			if errors.As(err, &said) && !strings.Contains(err.Error(), "broken pipe") && !strings.Contains(err.Error(), "signal: ") {
				return err
			}
		case <-time.After(time.Second):
			cancel()
			<-fetchErr
		}
		return unpackErr
	}
	if err := <-fetchErr; err != nil {
		return err
	}
	if unpackErr != nil {
		return unpackErr
	}
	return json.Unmarshal(size.Bytes(), &r.Size)
}

// publish makes a layer that is whole one of the cache.
func (c *Cache) publish(dir *os.File, hex string, r record) error {
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if _, there := c.readRecord(hex); there {
		return nil // another job was faster, and uses that one
	}
	if err := writeRecord(dir.Name(), r); err != nil {
		return err
	}
	to := c.path(layersDir, hex)
	if _, err := os.Lstat(to); err == nil { // not whole: the machine crashed before it was on the disk
		grave, err := os.MkdirTemp(c.path(removedDir), hex[:12]+".")
		if err == nil {
			err = os.Rename(to, filepath.Join(grave, rootName))
		}
		if err != nil {
			return err
		}
	}
	if err := os.Rename(dir.Name(), to); err != nil {
		return err
	}
	c.settling.Go(func() { c.settle(hex) })
	return nil
}

// settle notes that a layer is on the disk, once it is, and what is in it: no job waits
// for that.
func (c *Cache) settle(hex string) {
	dir, err := os.Open(c.path(layersDir, hex))
	if err != nil {
		return
	}
	defer dir.Close()
	sum, err := c.sum(context.Background(), hex)
	if err != nil {
		c.Log.Warn("a layer of a container image cannot be read as it was written: see whether the disk is sound", "layer", hex, "error", err)
	}
	if err := unix.Syncfs(int(dir.Fd())); err == nil {
		err = c.change(hex, func(r *record) { r.Boot, r.Sum = "", sum })
		if err != nil {
			c.Log.Warn("a layer of a container image is pulled again after the next boot", "layer", hex, "error", err)
		}
	}
}
