package noded

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/images"
	"github.com/gleaner-hpc/gleaner/noded/images/direct"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// CheckpointConfig is section [checkpoint] of the configuration: with what jobs
// are saved and restored, and where their images lie.
type CheckpointConfig struct {
	CRIU     string // program; "" = it is looked for
	Store    string // of the node's own images: a directory, or the address of a bucket
	StoreAt  images.Access
	Limit    uint64 // bytes that they may take; 0 = as many as there are
	Shared   []images.Shared
	TimeoutS uint32 // of a save for which nobody says how long it may take
	Rate     uint64 // bytes a second that other nodes are sent; 0 = as fast as it goes
	CopyRate uint64 // the same for copies for which no job waits
	// Direct are ports that may be opened for other nodes, each for one transfer of an
	// image; nil = none. MayDial: this node may connect to such ports of others.
	Direct  *direct.Ports
	MayDial bool
}

type checkpointFile struct {
	CRIU  string `toml:"criu"`
	Store string `toml:"store"`
	accessFile
	Limit   string `toml:"limit"`
	Timeout string `toml:"timeout"`
	Rate    string `toml:"rate"`
	// CopyRate bounds what leaves the node in the background.
	CopyRate string `toml:"copy_rate"`
	Direct   string `toml:"direct"`
	Shared   []struct {
		Name string `toml:"name"`
		Path string `toml:"path"`
		accessFile
	} `toml:"shared"`
}

// accessFile has what a store in a bucket, or one that is encrypted, needs.
type accessFile struct {
	Endpoint    string `toml:"endpoint"`
	Region      string `toml:"region"`
	Credentials string `toml:"credentials"`
	Keys        string `toml:"keys"`
}

// check refuses what cannot be a store; at is where it stands in the file.
func (a *accessFile) check(at, key, path string) (images.Access, error) {
	access := images.Access(*a)
	for _, named := range []struct{ key, file string }{{"credentials", a.Credentials}, {"keys", a.Keys}} {
		if named.file == "" {
			continue
		}
		if err := checkAbsolute(at+named.key, named.file); err != nil {
			return access, err
		}
	}
	place := access.Place(path)
	if place.InBucket() {
		_, _, err := place.Bucket()
		if err != nil {
			err = fmt.Errorf("%s: %w", at+key, err)
		}
		return access, err
	}
	for _, named := range []struct{ key, value string }{{"endpoint", a.Endpoint}, {"region", a.Region}, {"credentials", a.Credentials}} {
		if named.value != "" {
			return access, fmt.Errorf("%s is for a bucket, and %s %q is a directory: give s3://BUCKET/PREFIX, or leave it out", at+named.key, key, shorten(path))
		}
	}
	return access, checkAbsolute(at+key, path)
}

// Defaults of [checkpoint].
const (
	imagesDir           = "images" // in state_dir
	defaultSaveTimeoutS = 30 * 60
	mostSaveTimeout     = 7 * 24 * time.Hour
	defaultCopyRate     = 100 << 20
)

func (f *configFile) checkCheckpoint(c *Config) error {
	section := &f.Checkpoint
	c.Checkpoint = CheckpointConfig{CRIU: section.CRIU, Store: section.Store, TimeoutS: defaultSaveTimeoutS, CopyRate: defaultCopyRate}
	if section.CRIU != "" {
		if err := checkAbsolute("checkpoint.criu", section.CRIU); err != nil {
			return err
		}
	}
	if section.Store == "" {
		c.Checkpoint.Store = filepath.Join(c.StateDir, imagesDir)
	}
	var err error
	if c.Checkpoint.StoreAt, err = section.check("checkpoint.", "store", c.Checkpoint.Store); err != nil {
		return err
	}
	for _, size := range []struct {
		key, text string
		into      *uint64
	}{{"checkpoint.limit", section.Limit, &c.Checkpoint.Limit}, {"checkpoint.rate", section.Rate, &c.Checkpoint.Rate}, {"checkpoint.copy_rate", section.CopyRate, &c.Checkpoint.CopyRate}} {
		if size.text == "" {
			continue
		}
		if *size.into, err = parseMemory(size.key, size.text); err != nil {
			return err
		}
		if *size.into > math.MaxInt64 {
			return fmt.Errorf("%s %q is more than any disk has", size.key, shorten(size.text))
		}
	}
	if section.Timeout != "" {
		timeout, err := time.ParseDuration(section.Timeout)
		if err != nil || timeout < time.Second || timeout > mostSaveTimeout {
			return fmt.Errorf("checkpoint.timeout %q: give a time between 1s and %v, such as 30m", shorten(section.Timeout), mostSaveTimeout)
		}
		c.Checkpoint.TimeoutS = uint32(timeout / time.Second)
	}
	if err := section.checkDirect(&c.Checkpoint); err != nil {
		return err
	}
	return f.checkSharedStores(c)
}

// dialOnly is the value of checkpoint.direct for a node that opens no port.
const dialOnly = "dial"

func (f *checkpointFile) checkDirect(c *CheckpointConfig) error {
	c.MayDial = f.Direct != ""
	if f.Direct == "" || f.Direct == dialOnly {
		return nil
	}
	ports, err := direct.ParsePorts(f.Direct)
	if err != nil {
		return fmt.Errorf("checkpoint.direct %q: %w, or %q to open none and come to others' ports only", shorten(f.Direct), err, dialOnly)
	}
	c.Direct = &ports
	return nil
}

func (f *configFile) checkSharedStores(c *Config) error {
	if len(f.Checkpoint.Shared) > maxListed {
		return fmt.Errorf("checkpoint.shared: %d stores are too many: at most %d", len(f.Checkpoint.Shared), maxListed)
	}
	seen := map[string]bool{c.Checkpoint.Store: true}
	for i, shared := range f.Checkpoint.Shared {
		at := fmt.Sprintf("checkpoint.shared %d", i+1)
		if len(shared.Name) > spec.MaxNameBytes || !idPattern.MatchString(shared.Name) {
			return fmt.Errorf("%s: name %q: give each store a name made of letters, digits, '.', '_' and '-', the same on all nodes that share it", at, shorten(shared.Name))
		}
		access, err := shared.check(at+": ", "path", shared.Path)
		if err != nil {
			return err
		}
		if seen[shared.Name] || seen[shared.Path] {
			return fmt.Errorf("%s: name %q, path %q: another store has one of them already", at, shared.Name, shared.Path)
		}
		seen[shared.Name], seen[shared.Path] = true, true
		c.Checkpoint.Shared = append(c.Checkpoint.Shared, images.Shared{Name: shared.Name, Path: shared.Path, Access: access})
	}
	return nil
}

// stores says where this node keeps images.
func (c *Config) stores() images.Config {
	own := c.Checkpoint.Store
	if c.Checkpoint.StoreAt.Place(own).InBucket() {
		own = strings.TrimRight(own, "/") + "/" + c.Name // nodes may have one bucket, and each deletes what is its own
	}
	return images.Config{
		Own: own, OwnAt: c.Checkpoint.StoreAt, Bytes: int64(c.Checkpoint.Limit), KeepFree: int64(c.MinFreeBytes), Shared: c.Checkpoint.Shared,
	}
}
