package bundle

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/noded/pid1"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// FuzzReports: whatever a job leaves in the files that it can write, and
// whatever lies there as a result, it decides nothing but its own exit status,
// and the words for its user are plain and short.
func FuzzReports(f *testing.F) {
	f.Add([]byte(`{"code":256,"signal":-1,"start_ms":0,"detail":"\u001b[2J\u009b\u202e"}`), []byte(`{"start_ms":-1}`), []byte{})
	f.Add([]byte(`{"code":3,"start_ms":9223372036854775807}`), []byte(`[]`), prototest.Marshal(&pb.AllocEnded{Alloc: &pb.AllocId{Job: 12, Epoch: 1}, ExitCode: 7}))
	f.Add([]byte(`{"code":1e99}`), []byte(`null`), prototest.Marshal(&pb.AllocEnded{Alloc: &pb.AllocId{Job: 13}}))
	f.Add([]byte(strings.Repeat("[", 70000)), []byte(nil), []byte("\xff"))
	d := Dir(filepath.Join(f.TempDir(), "12.1"))
	if err := os.MkdirAll(d.Path(RunDir), 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, exit, start, ended []byte) {
		must(t, os.WriteFile(d.Path(RunDir, pid1.ExitFile), exit, 0o600))
		must(t, os.WriteFile(d.Path(RunDir, pid1.StartFile), start, 0o600))
		must(t, os.WriteFile(d.Path(ResultFile), Seal(bytes.Clone(ended)), 0o600))
		_ = ReadStart(d.Path(RunDir))
		if result, err := d.Result(); err == nil && ID(result.Alloc) != "12.1" {
			t.Errorf("a result of allocation %v", result.Alloc)
		}
		report := ReadExit(d.Path(RunDir))
		if report == nil {
			return
		}
		result := &pb.AllocEnded{}
		report.Fill(result)
		if result.ExitCode > 255 || result.ExitSignal > 127 || len(result.Detail) > 1024 {
			t.Errorf("%v", result)
		}
		if strings.ContainsFunc(result.Detail, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) {
			t.Errorf("%q", result.Detail)
		}
		if _, err := proto.Marshal(result); err != nil {
			t.Errorf("a report that cannot be sent: %v", err)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
