package noded

import (
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/images"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// CheckpointConfig is section [checkpoint] of the configuration: with what jobs
// are saved and restored, and where their images lie.
type CheckpointConfig struct {
	CRIU     string // program; "" = it is looked for
	Store    string // directory of the node's own images
	Limit    uint64 // bytes that they may take; 0 = as many as there are
	Shared   []images.Shared
	TimeoutS uint32 // of a save for which nobody says how long it may take
	Rate     uint64 // bytes a second that other nodes are sent; 0 = as fast as it goes
}

type checkpointFile struct {
	CRIU    string `toml:"criu"`
	Store   string `toml:"store"`
	Limit   string `toml:"limit"`
	Timeout string `toml:"timeout"`
	Rate    string `toml:"rate"`
	Shared  []struct {
		Name string `toml:"name"`
		Path string `toml:"path"`
	} `toml:"shared"`
}

// Defaults of [checkpoint].
const (
	imagesDir           = "images" // in state_dir
	defaultSaveTimeoutS = 30 * 60
	mostSaveTimeout     = 7 * 24 * time.Hour
)

func (f *configFile) checkCheckpoint(c *Config) error {
	section := &f.Checkpoint
	c.Checkpoint = CheckpointConfig{CRIU: section.CRIU, Store: section.Store, TimeoutS: defaultSaveTimeoutS}
	if section.CRIU != "" {
		if err := checkAbsolute("checkpoint.criu", section.CRIU); err != nil {
			return err
		}
	}
	if section.Store == "" {
		c.Checkpoint.Store = filepath.Join(c.StateDir, imagesDir)
	} else if err := checkAbsolute("checkpoint.store", section.Store); err != nil {
		return err
	}
	for _, size := range []struct {
		key, text string
		into      *uint64
	}{{"checkpoint.limit", section.Limit, &c.Checkpoint.Limit}, {"checkpoint.rate", section.Rate, &c.Checkpoint.Rate}} {
		if size.text == "" {
			continue
		}
		var err error
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
	return f.checkSharedStores(c)
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
		if err := checkAbsolute(at+": path", shared.Path); err != nil {
			return err
		}
		if seen[shared.Name] || seen[shared.Path] {
			return fmt.Errorf("%s: name %q, path %q: another store has one of them already", at, shared.Name, shared.Path)
		}
		seen[shared.Name], seen[shared.Path] = true, true
		c.Checkpoint.Shared = append(c.Checkpoint.Shared, images.Shared{Name: shared.Name, Path: shared.Path})
	}
	return nil
}

// stores says where this node keeps images.
func (c *Config) stores() images.Config {
	return images.Config{
		Own: c.Checkpoint.Store, Bytes: int64(c.Checkpoint.Limit), KeepFree: int64(c.MinFreeBytes), Shared: c.Checkpoint.Shared,
	}
}
