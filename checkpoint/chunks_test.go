package checkpoint

import (
	"encoding/base64"
	"errors"
	"slices"
	"testing"
)

// TestChunks: a list is read as it was written, and what is no list is refused.
func TestChunks(t *testing.T) {
	want := Chunks{{Size: 70_000, Sum: Digest{1, 2, 3}}, {Size: 1 << 49}, {Size: 1, Sum: Digest{31: 255}}}
	text, err := want.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var got Chunks
	if err := got.UnmarshalText(text); err != nil || !slices.Equal(got, want) || !got[1].Hole() {
		t.Errorf("read %v, %v", got, err)
	}
	if len(text) > 54*len(want) {
		t.Errorf("%d chunks take %d bytes", len(want), len(text))
	}
	for name, bad := range map[string][]byte{
		"not base64":  []byte("{}"),
		"cut off":     []byte(base64.StdEncoding.EncodeToString(make([]byte, 3*chunkBytes-1))),
		"one more":    []byte(base64.StdEncoding.EncodeToString(make([]byte, chunkBytes+1))),
		"hexadecimal": []byte("00ff"),
	} {
		if err := new(Chunks).UnmarshalText(bad); !errors.Is(err, errChunks) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
