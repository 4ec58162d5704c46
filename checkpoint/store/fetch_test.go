package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A copy is the image, under the same name, wherever it comes from, and can be
// built on; what the images before have already does not come again.
func TestWhatIsFetchedIsTheSame(t *testing.T) {
	everyWay(t, func(t *testing.T, d *Directory, r Reader) {
		there := newStore(t, Limits{})
		first, second := program(1, 900), program(1, 900)
		second["run/more"] = []byte("what changed")
		one, two := first.put(t, d, 1, 1), second.put(t, d, 1, 2)
		copied, err := there.Fetch(t.Context(), r, one.Digest)
		if err != nil || copied.Digest != one.Digest || copied.Bytes != one.Bytes || copied.WrittenBytes < one.WrittenBytes/2 {
			t.Fatalf("the first: %+v, %v; put %+v", copied, err, one)
		}
		copied, err = there.Fetch(t.Context(), r, two.Digest)
		if err != nil || copied.WrittenBytes > one.WrittenBytes/4 {
			t.Fatalf("the second: %+v, %v; put %+v", copied, err, two)
		}
		first.get(t, there, one.Digest)
		second.get(t, there, two.Digest)
		if again, err := there.Fetch(t.Context(), r, two.Digest); err != nil || again.WrittenBytes != 0 {
			t.Errorf("once more: %+v, %v", again, err)
		}
		if err := there.Delete(t.Context(), one.Digest); err != nil {
			t.Fatal(err)
		}
		second.get(t, there, two.Digest)
	})
}

// A copy that cannot come to its end leaves nothing.
func TestWhatIsNotFetchedLeavesNothing(t *testing.T) {
	d := newStore(t, Limits{})
	receipt := program(3, 2000).put(t, d, 1, 1)
	small := newStore(t, Limits{Bytes: receipt.WrittenBytes / 2})
	if _, err := small.Fetch(t.Context(), d, receipt.Digest); !errors.Is(err, ErrFull) {
		t.Errorf("into a store that is too small: %v", err)
	}
	if _, err := small.Fetch(t.Context(), d, [32]byte{1}); !errors.Is(err, ErrNoImage) {
		t.Errorf("an image that is nowhere: %v", err)
	}
	packs, err := filepath.Glob(filepath.Join(d.path, imagesName, "*", "*"+packSuffix))
	if err != nil || len(packs) == 0 {
		t.Fatalf("packs: %v, %v", packs, err)
	}
	data, err := os.ReadFile(packs[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(packMagic)+100] ^= 1
	if err := os.WriteFile(packs[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	there := newStore(t, Limits{})
	var damage *Damage
	if _, err := there.Fetch(t.Context(), d, receipt.Digest); !errors.As(err, &damage) {
		t.Errorf("a spoilt chunk: %v", err)
	}
	for _, s := range []*Directory{small, there} {
		if u, err := s.Usage(t.Context()); err != nil || u.Images != 0 || u.Used != 0 {
			t.Errorf("%+v, %v", u, err)
		}
	}
}
