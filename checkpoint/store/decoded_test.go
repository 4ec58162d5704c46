package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// TestDecoded: a manifest is decoded once for who reads it again soon, and not trusted for
// that: damage that comes meanwhile is found, and what one reader changes no other one
// sees. It is not kept for long.
func TestDecoded(t *testing.T) {
	s := newStore(t, Limits{})
	digest := program(1, 50).put(t, s, 7, 1).Digest
	first, err := s.Manifest(t.Context(), digest)
	if err != nil {
		t.Fatal(err)
	}
	if s.decoded.m == nil || s.decoded.digest != digest {
		t.Fatal("nothing is kept")
	}
	want := first.Parts[0].Name
	first.Parts[0].Name, first.Job = "changed", 99
	again, err := s.Manifest(t.Context(), digest)
	if err != nil || again.Parts[0].Name != want || again.Job == 99 {
		t.Errorf("read again: %+v, %v", again, err)
	}
	if _, err := s.Manifest(t.Context(), checkpoint.Digest{1}); !errors.Is(err, ErrNoImage) {
		t.Errorf("another image: %v", err)
	}
	found, err := filepath.Glob(filepath.Join(s.path, imagesName, "*", manifestName))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(found[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	var damage *Damage
	if _, err := s.Manifest(t.Context(), digest); !errors.As(err, &damage) || !strings.Contains(damage.File, manifestName) {
		t.Errorf("damaged meanwhile: %v", err)
	}
	s.decoded.forget()
	if s.decoded.of(digest, data) != nil {
		t.Error("it is kept for ever")
	}
}
