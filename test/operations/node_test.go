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
cgroup_parent = "/%s/gpu01"
`

// joinNode sets gpu01 up as install.md says; it happens before the first block
// that is about it.
func (h *hosts) joinNode() {
	h.t.Helper()
	if out, err := h.run("c1", "gctld cert --config /etc/gleaner/gctld.toml --node gpu01 --out ./gpu01\nscp -r ./gpu01 gpu01.lab:/etc/gleaner/tls"); err != nil {
		h.t.Fatalf("%v\n%s", err, out)
	}
	h.must(os.WriteFile(h.dir+"/gpu01/etc/gleaner/gnoded.toml", fmt.Appendf(nil, nodeFile, h.group()), 0o644))
	if out, err := h.run("gpu01", "systemctl start gnoded"); err != nil {
		h.t.Fatalf("%v\n%s", err, out)
	}
	h.endJobs()
}

// group is the control group above that of gpu01.
func (h *hosts) group() string {
	return fmt.Sprintf("gleaner-operations-%d-%s", os.Getpid(), h.t.Name())
}

// endJobs takes away at the end what runs on gpu01.
func (h *hosts) endJobs() {
	h.t.Cleanup(func() {
		if out, err := h.run("gpu01", "systemctl stop gnoded\ngnoded stop-jobs --config /etc/gleaner/gnoded.toml"); err != nil {
			h.t.Errorf("end the jobs of gpu01: %v\n%s", err, out)
		}
		left, _ := filepath.Glob("/sys/fs/cgroup/*/" + h.group())
		for _, group := range append(left, "/sys/fs/cgroup/"+h.group()) {
			if err := os.Remove(group); err != nil && !errors.Is(err, os.ErrNotExist) {
				h.t.Errorf("left over: %v", err)
			}
		}
	})
}

// install has a host as install.md leaves it.
func (h *hosts) install(name string) {
	h.t.Helper()
	if out, err := h.run(name, "cp -dr bin/* /usr/local/sbin/\nmkdir -p /etc/gleaner\nuseradd --system --no-log-init --user-group --no-create-home gleaner\ninstall -D -m 644 -t /etc/systemd/system contrib/systemd/*.service"); err != nil {
		h.t.Fatalf("%v\n%s", err, out)
	}
}

// ownGroup gives the node that a page has just set up a control group of this
// test's own, and reports whether there was one to set up.
func (h *hosts) ownGroup() bool {
	h.t.Helper()
	path := h.dir + "/gpu01/etc/gleaner/gnoded.toml"
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	h.must(os.WriteFile(path, fmt.Appendf(text, "cgroup_parent = \"/%s/gpu01\"\n", h.group()), 0o644))
	return true
}
