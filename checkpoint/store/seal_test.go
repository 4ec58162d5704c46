package store_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/gleaner-hpc/gleaner/checkpoint/store"
)

// newKey answers a line as age-keygen writes it.
func newKey(t *testing.T) string {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return key.String() + "\n"
}

func openSealed(t *testing.T, path string, keys *store.Keys) *store.Directory {
	t.Helper()
	d, err := store.OpenSealed(t.Context(), path, store.Limits{}, keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// everyFile answers the bytes of all files below a directory.
func everyFile(t *testing.T, directory string) [][]byte {
	t.Helper()
	var all [][]byte
	err := filepath.WalkDir(directory, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all = append(all, data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A key is added, and another one: new images are written with the newest, old ones are read,
// and those that no key opens say so, and are not taken for damaged.
func TestSealedStoreAndItsKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	first, second := store.Program(11, 300), store.Program(11, 300).Changed()
	plain := openSealed(t, path, nil)
	before := first.Put(t, plain, 7, 1)

	one, two := newKey(t), newKey(t)
	keyFile := file(t, "# created: today\n"+one, 0o600)
	d := openSealed(t, path, store.NewKeys(keyFile))
	first.Get(t, d, before.Digest)
	sealed := second.Put(t, d, 7, 2)
	if sealed.WrittenBytes < before.WrittenBytes/2 {
		t.Errorf("an encrypted image was built on one that is not: %d bytes", sealed.WrittenBytes)
	}
	if third := first.Put(t, d, 7, 3); third.WrittenBytes > sealed.WrittenBytes/2 {
		t.Errorf("an image was not built on one of the same key: %d bytes", third.WrittenBytes)
	}
	if err := d.Delete(t.Context(), before.Digest); err != nil {
		t.Fatal(err)
	}
	for _, data := range everyFile(t, path) {
		if bytes.Contains(data, second.Pages()[:64]) || !bytes.HasPrefix(data, []byte("age-encryption.org/v1\n")) {
			t.Fatal("a file is not encrypted")
		}
	}

	// Another key is added while the store is open.
	if err := os.WriteFile(keyFile, []byte(one+two), 0o600); err != nil {
		t.Fatal(err)
	}
	newest := second.Put(t, d, 7, 4)
	if newest.WrittenBytes < before.WrittenBytes/2 {
		t.Errorf("an image of the new key needs the old one: %d bytes", newest.WrittenBytes)
	}
	second.Get(t, d, sealed.Digest)
	second.Get(t, d, newest.Digest)

	// The old one is taken away.
	if err := os.WriteFile(keyFile, []byte(two), 0o600); err != nil {
		t.Fatal(err)
	}
	second.Get(t, d, newest.Digest)
	for name, keys := range map[string]*store.Keys{
		"without the old key": store.NewKeys(keyFile), "another key": store.NewKeys(file(t, newKey(t), 0o600)),
		"no file": store.NewKeys(filepath.Join(t.TempDir(), "none")), "open to others": store.NewKeys(file(t, one, 0o640)),
		"nonsense": store.NewKeys(file(t, "nonsense\n", 0o600)),
	} {
		err := openSealed(t, path, keys).Get(t.Context(), sealed.Digest, filepath.Join(t.TempDir(), "x"))
		var damage *store.Damage
		if !errors.Is(err, store.ErrKey) || !store.Away(err) || errors.As(err, &damage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := plain.Get(t.Context(), newest.Digest, filepath.Join(t.TempDir(), "x")); err == nil || !strings.Contains(err.Error(), "encrypted") {
		t.Errorf("a node without a key: %v", err)
	}
	// Nobody can write without a key, and the image before stays.
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	m, directory := first.Write(t, 7, 5)
	if _, err := d.Put(t.Context(), m, directory); !errors.Is(err, store.ErrKey) {
		t.Errorf("put without a key: %v", err)
	}
}

// A byte of an encrypted file that was changed is damage, wherever it is.
func TestSealedStoreDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	d := openSealed(t, path, store.NewKeys(file(t, newKey(t), 0o600)))
	receipt := store.Program(12, 120).Put(t, d, 7, 1)
	packs, err := filepath.Glob(filepath.Join(path, "images", "*", "*"))
	if err != nil || len(packs) < 2 {
		t.Fatal(packs, err)
	}
	for _, pack := range packs {
		whole, err := os.ReadFile(pack)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []int{30, 210, len(whole) / 2, len(whole) - 1} {
			spoilt := bytes.Clone(whole)
			spoilt[min(at, len(spoilt)-1)] ^= 1
			if err := os.WriteFile(pack, spoilt, 0o600); err != nil {
				t.Fatal(err)
			}
			err := d.Get(t.Context(), receipt.Digest, filepath.Join(t.TempDir(), "x"))
			var damage *store.Damage
			if !errors.As(err, &damage) && !errors.Is(err, store.ErrKey) {
				t.Errorf("%s, byte %d: %v", filepath.Base(pack), at, err)
			}
		}
		if err := os.WriteFile(pack, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBucketEncrypted(t *testing.T) {
	server := startServer(t)
	keys := store.NewKeys(file(t, newKey(t), 0o600))
	d, bucket := openBucket(t, server, keys)
	s := store.Program(13, 1000)
	one := s.Put(t, d, 7, 1)
	two := s.Changed().Put(t, d, 7, 2)
	if two.WrittenBytes > one.WrittenBytes/4 {
		t.Errorf("the second image wrote %d bytes, and the first %d", two.WrittenBytes, one.WrittenBytes)
	}
	s.Get(t, d, one.Digest)
	s.Changed().Get(t, d, two.Digest)
	found, err := bucket.List(t.Context(), "data/")
	if err != nil || len(found) < 4 {
		t.Fatal(found, err)
	}
	for _, object := range found {
		head := make([]byte, 22)
		if _, err := bucket.ReadAt(t.Context(), object.Key, head, 0); err != nil || string(head) != "age-encryption.org/v1\n" {
			t.Errorf("%s: %q, %v", object.Key, head, err)
		}
	}
}
