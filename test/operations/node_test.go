package operations

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// nodeFile is what install.md has, with a control group of this test's own.
const nodeFile = `name          = "gpu01"
controllers   = ["c1.lab:6817", "c2.lab:6817", "c3.lab:6817"]
tls_dir       = "/etc/gleaner/tls"
cgroup_parent = "/gleaner-operations-%d/gpu01"
`

// joinNode sets gpu01 up as install.md says; it happens before the first block
// that is about it.
func (h *hosts) joinNode() {
	h.t.Helper()
	if out, err := h.run("c1", "gctld cert --config /etc/gleaner/gctld.toml --node gpu01 --out ./gpu01\nscp -r ./gpu01 gpu01.lab:/etc/gleaner/tls"); err != nil {
		h.t.Fatalf("%v\n%s", err, out)
	}
	h.must(os.WriteFile(h.dir+"/gpu01/etc/gleaner/gnoded.toml", fmt.Appendf(nil, nodeFile, os.Getpid()), 0o644))
	if out, err := h.run("gpu01", "systemctl start gnoded"); err != nil {
		h.t.Fatalf("%v\n%s", err, out)
	}
	h.t.Cleanup(func() {
		if out, err := h.run("gpu01", "systemctl stop gnoded\ngnoded stop-jobs --config /etc/gleaner/gnoded.toml"); err != nil {
			h.t.Errorf("end the jobs of gpu01: %v\n%s", err, out)
		}
		left, _ := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/*/gleaner-operations-%d", os.Getpid()))
		for _, group := range append(left, fmt.Sprintf("/sys/fs/cgroup/gleaner-operations-%d", os.Getpid())) {
			if err := os.Remove(group); err != nil && !errors.Is(err, os.ErrNotExist) {
				h.t.Errorf("left over: %v", err)
			}
		}
	})
}
