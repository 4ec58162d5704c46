// Package machine runs the project's real binaries, and tests that exist
// elsewhere, in a virtual machine whose kernel has cgroup v2 and no v1: the
// stories of test/scenario about isolation and ends, and the tests of the
// packages that handle control groups.
//
// The test promises that what it boots has nothing of the host but copies of
// programs, and that a machine that hangs is stopped and shows its console. It
// needs what `contrib/setup/debian.sh machine` installs (qemu, and a kernel in
// the user's cache directory), mke2fs, and the binaries of `make build`; without
// them it is skipped and says why. It does not need root. See DESIGN.md.
package machine

// Case is one program that the machine runs.
type Case struct {
	Name      string
	Directory string   // where it starts
	Arguments []string // the program first
	Seconds   int      // after which it is killed
}

// Report is what the machine tells on its second serial port, one line of JSON
// each: a piece of a case's output, or its end.
type Report struct {
	Case    string
	Output  string  `json:",omitempty"`
	Ended   bool    `json:",omitempty"`
	Failure string  `json:",omitempty"` // of an end: what went wrong, or empty
	Seconds float64 `json:",omitempty"` // of an end: how long it took
}

// Directory is where the machine's process 1 finds what is its own: Cases,
// Modules (a directory of kernel modules to load).
const (
	Directory = "/machine"
	Cases     = Directory + "/cases.json"
	Modules   = Directory + "/modules"
	Init      = Directory + "/init"
)
