package jobspec

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// TestPlacesWarnings: who may not write where the output goes is told, and nobody
// else. It asks as another user, since root may write everywhere.
func TestPlacesWarnings(t *testing.T) {
	top, err := os.MkdirTemp("", "outputs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	for path, mode := range map[string]os.FileMode{"": 0o755, "open": 0o777, "closed": 0o555, "closed/open": 0o777} {
		if err := os.MkdirAll(filepath.Join(top, path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(top, path), mode); err != nil {
			t.Fatal(err)
		}
	}
	for path, mode := range map[string]os.FileMode{"closed/mine": 0o666, "closed/theirs": 0o444} {
		if err := os.WriteFile(filepath.Join(top, path), nil, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(top, path), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"toOpen": "open", "toClosed": "closed", "toTheirs": "closed/theirs", "toNowhere": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	asNobody(t)
	for _, test := range []struct {
		directory, output, errors string
		want                      string // "" = no warning
	}{
		{"open", "", "", ""},
		{"closed", "", "", "directory of the output, TOP/closed,"},
		{"toOpen", "", "", ""},
		{"toClosed", "", "", "TOP/toClosed"},
		{"nowhere", "", "", ""},
		{"toNowhere", "", "", ""},
		{"closed", "/dev/null", "", ""},
		{"closed", "/dev/null", "err-%j", "TOP/closed,"},
		{"closed", "mine", "", ""},
		{"closed", "theirs", "", "output file TOP/closed/theirs"},
		{"open", "TOP/toTheirs", "", "output file TOP/toTheirs"},
		{"closed", "new", "", "TOP/closed,"},
		{"closed", "open/%A_%a", "", ""},
		{"open", "TOP/closed/%j", "", "TOP/closed,"},
		{"open", "TOP/closed/%u/%j", "", ""}, // that directory may be there and open
		{"open", "TOP/closed/x%j/y", "", ""},
		{"open", "~/%j", "", "--output=~/%j is a name that begins with the character ~"},
	} {
		at := func(path string) string { return strings.ReplaceAll(path, "TOP", top) }
		job := &pb.JobSpec{WorkDirectory: filepath.Join(top, test.directory), StandardOutput: at(test.output), StandardError: at(test.errors)}
		got := placesWarnings(job, option.Values{OptOutput: {test.output}})
		switch {
		case test.want == "" && len(got) > 0:
			t.Errorf("%+v: warned of %q", test, got)
		case test.want != "" && (len(got) != 1 || !strings.Contains(got[0], at(test.want))):
			t.Errorf("%+v: warned of %q", test, got)
		}
	}
}

// asNobody has this test look at files as a user who owns none.
func asNobody(t *testing.T) {
	if os.Getuid() != 0 {
		return
	}
	runtime.LockOSThread()
	as := func(id int) error { return errors.Join(unix.Setfsgid(id), unix.Setfsuid(id)) }
	if err := as(65534); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := as(0); err == nil {
			runtime.UnlockOSThread()
		}
	})
}
