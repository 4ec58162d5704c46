package checkpoint

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkDecodeManifest reads the manifest of an image of a gibibyte.
func BenchmarkDecodeManifest(b *testing.B) {
	random := rand.NewChaCha8([32]byte{1})
	pages := Part{Name: "zz/pages-1.img"}
	for range 1 << 16 {
		c := Chunk{Size: 16 << 10}
		_, _ = random.Read(c.Sum[:]) // it always can
		pages.Chunks, pages.Size = append(pages.Chunks, c), pages.Size+c.Size
	}
	m := whole()
	m.Parts = append(m.Parts, pages)
	data, digest, err := m.Encode()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := DecodeManifest(data, digest); err != nil {
			b.Fatal(err)
		}
	}
}
