package ref

import (
	"errors"
	"strings"
	"testing"
)

// TestFiles: a file is meant by its word or by what its name ends in, and reads as it is
// written.
func TestFiles(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("1", 64)
	for text, want := range map[string]string{
		"/a/x.sif": "sif:/a/x.sif", "x.sif": "sif:/here/x.sif", "../x.sqsh": "squashfs:/x.sqsh", "x.squashfs" + digest: "squashfs:/here/x.squashfs" + digest,
		"sif:/a/x": "sif:/a/x", "squashfs:x" + digest: "squashfs:/here/x" + digest, "docker://lab.example/x.sif": "docker://lab.example/x.sif:latest",
		"lab.example/x.sif:1": "docker://lab.example/x.sif:1",
		"/a/x":                "", "./x": "", "sif:": "", "sif:/a/x:1": "", "x.sif@sha256:12": "",
	} {
		r, err := Parse(text, "/here")
		switch {
		case want == "" && !errors.Is(err, ErrName), want != "" && (err != nil || r.String() != want):
			t.Errorf("%q is %q, %v; want %q", text, r, err, want)
		case want != "":
			if again, err := Parse(want, ""); err != nil || again != r {
				t.Errorf("%q reads %v, %v", want, again, err)
			}
		}
	}
}
