package store

import (
	"os"
	"path/filepath"
	"testing"
)

// What is taken is what is put, and takes no room any more where it was.
func TestWhatIsTakenIsGivenBack(t *testing.T) {
	s := sample{"pages-1.img": noise(source(5), 3*giveEvery+12345), "small": []byte("a few bytes")}
	m, directory := s.write(t, 1, 1)
	file := filepath.Join(directory, "pages-1.img")
	put, err := newStore(t, Limits{}).Put(t.Context(), m, directory)
	if err != nil {
		t.Fatal(err)
	}
	if err := syncFile(file); err != nil { // only then the file system has chosen blocks
		t.Fatal(err)
	}
	before := blocks(t, file)
	d := newStore(t, Limits{})
	taken, err := d.Take(t.Context(), m, directory)
	if err != nil {
		t.Fatal(err)
	}
	if put.Digest != taken.Digest {
		t.Errorf("%s was put, and %s taken", put.Digest, taken.Digest)
	}
	if after := blocks(t, file); before < int64(3*giveEvery) || after > before/100 {
		t.Errorf("the part took %d bytes, and takes %d", before, after)
	}
	if info, err := os.Stat(file); err != nil || info.Size() != int64(len(s["pages-1.img"])) {
		t.Errorf("the part is not the file that it was: %v, %v", info, err)
	}
	s.get(t, d, taken.Digest)
}

func syncFile(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Sync()
}
