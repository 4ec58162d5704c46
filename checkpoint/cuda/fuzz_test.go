package cuda

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// FuzzHelperLines: whatever the helper is asked, it answers in lines or ends
// with an error; nothing is done to a process without a library.
func FuzzHelperLines(f *testing.F) {
	for _, seed := range []string{`{"id":1,"call":"cuCheckpointProcessLock","pid":7,"timeout":5}`, `{"id":1`, "[]", `{"call":"` + strings.Repeat("x", 300) + `"}`, "null\n\n", "{}\n{}\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if strings.Contains(in, `\u`) || strings.Contains(in, callHello) {
			t.Skip("needs a question without a library: one of any name must not be loaded")
		}
		var out bytes.Buffer
		err := serve(struct {
			io.Reader
			io.Writer
		}{strings.NewReader(in), &out})
		if err != nil && len(err.Error()) > 1024 {
			t.Fatalf("an error of %d bytes", len(err.Error()))
		}
		for line := range strings.Lines(out.String()) {
			if !strings.Contains(line, `"error"`) || !strings.HasSuffix(line, "}\n") {
				t.Fatalf("%q is answered with %q", in, line)
			}
		}
	})
}

// FuzzUUID: what is read as one has the digits that it has.
func FuzzUUID(f *testing.F) {
	for _, seed := range []string{"GPU-00112233-4455-6677-8899-aabbccddeeff", "GPU-", "MIG-0", "", "GPU-00112233-4455-6677-8899-aabbccddeefg"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		id, err := parseUUID(in)
		if err != nil {
			if len(err.Error()) > 1024 {
				t.Fatalf("a refusal of %d bytes", len(err.Error()))
			}
			return
		}
		if len(in) != 40 || id == (uuid{}) && strings.Trim(in[4:], "0-") != "" {
			t.Fatalf("%q is read as %x", in, id)
		}
	})
}
