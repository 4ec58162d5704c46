package unpack

import (
	"archive/tar"
	"errors"
	"math"
	"testing"
)

// What an entry says of its size is the enemy's word: the sum of the sizes never passes the
// limit by passing the largest number.
func TestSizesThatAreOnlySaid(t *testing.T) {
	for _, size := range []int64{math.MaxInt64, math.MaxInt64 - 4094, math.MaxInt64 - 8192, 1 << 62, -1} {
		u := &unpacking{limits: Limits{Bytes: 1 << 30, Files: 10}}
		if _, err := u.accept(&tar.Header{Name: "sparse", Typeflag: tar.TypeReg, Size: size}); !errors.Is(err, ErrRoom) {
			t.Errorf("a file of %d bytes: %v", size, err)
		}
	}
	u := &unpacking{limits: Limits{Bytes: 3 << 20, Files: 10}}
	for range 2 {
		if _, err := u.accept(&tar.Header{Name: "half", Typeflag: tar.TypeReg, Size: 1 << 20}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := u.accept(&tar.Header{Name: "too much", Typeflag: tar.TypeReg, Size: 1 << 20}); !errors.Is(err, ErrRoom) {
		t.Errorf("a file for which there is no room left: %v", err)
	}
}
