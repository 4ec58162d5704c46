package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"filippo.io/age"
	"golang.org/x/sys/unix"
)

// ErrKey is returned, wrapped, for what none of the site's keys opens, and when the keys
// themselves cannot be read. Of the image it says nothing.
var ErrKey = errors.New("the images are encrypted, and there is no key for them")

// Keys are the keys of a site: all of them read, and the last one writes. They are in a file
// as age-keygen writes it, which is read again when it has changed: a key is changed by
// adding a line.
type Keys struct {
	path string

	mu    sync.Mutex
	seen  unix.Stat_t
	all   []age.Identity
	write age.Recipient
}

// NewKeys answers the keys in a file, which is read when they are needed.
func NewKeys(path string) *Keys { return &Keys{path: path} }

// current answers the keys as the file has them now.
func (k *Keys) current() ([]age.Identity, age.Recipient, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.look(); err != nil {
		// Only told: that this file is not there does not mean that one of an image is not.
		return nil, nil, fmt.Errorf("%w: the file of keys: %v", ErrKey, err)
	}
	return k.all, k.write, nil
}

func (k *Keys) look() error {
	file, err := os.Open(k.path)
	if err != nil {
		return err
	}
	defer file.Close()
	var now unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &now); err != nil {
		return err
	}
	if k.all != nil && now.Ino == k.seen.Ino && now.Size == k.seen.Size && now.Mtim == k.seen.Mtim && now.Mode == k.seen.Mode && now.Uid == k.seen.Uid {
		return nil
	}
	if now.Uid != uint32(os.Geteuid()) || now.Mode&0o077 != 0 {
		return fmt.Errorf("others could read or change %s: chown %d %s; chmod 600 %s", k.path, os.Geteuid(), k.path, k.path)
	}
	all, write, err := parseKeys(file)
	if err != nil {
		return fmt.Errorf("%s: %w: make one with age-keygen", k.path, err)
	}
	k.all, k.write, k.seen = all, write, now
	// One that is changed twice within a tick of the file system's clock looks unchanged.
	if time.Since(time.Unix(now.Mtim.Unix())) < time.Second {
		k.seen = unix.Stat_t{}
	}
	return nil
}

// parseKeys reads keys as age-keygen writes them.
func parseKeys(from io.Reader) ([]age.Identity, age.Recipient, error) {
	all, err := age.ParseIdentities(from)
	if err != nil {
		return nil, nil, err
	}
	switch last := all[len(all)-1].(type) {
	case *age.X25519Identity:
		return all, last.Recipient(), nil
	case *age.HybridIdentity:
		return all, last.Recipient(), nil
	}
	return nil, nil, errors.New("the last key is of a kind that cannot write")
}
