// Package finding is what a check of a machine has to say, in the one shape in
// which gctld, gnoded and gdoctor pass it on, and how checks are run.
//
// It promises that Run comes back: a check that hangs, at a file server that
// is away for instance, becomes a finding of its own when its time is over.
// Checks change nothing that stays, and put no secret into a finding.
package finding

// Status is how a check ended.
type Status string

// The statuses. A warning lets jobs run; a failure does not, or loses
// something. What was skipped could not be looked at.
const (
	OK      Status = "ok"
	Warning Status = "warning"
	Failed  Status = "failed"
	Skipped Status = "skipped"
)

// Finding is the result of one check.
type Finding struct {
	Check  string `json:"check"` // "cgroups", "disk of /var/lib/gleaner/noded"
	Status Status `json:"status"`
	Seen   string `json:"seen"`            // what there is
	Means  string `json:"means,omitempty"` // for jobs or for the cluster; "" with OK
	Fix    string `json:"fix,omitempty"`   // what to do, in lines; "" with OK
}

// Host is what the configuration of a daemon says that others look at too.
type Host struct {
	Role         string   `json:"role"` // Node or Controller
	Name         string   `json:"name"`
	Version      string   `json:"version"`
	Config       string   `json:"config"`    // the file; "" = none, all is default
	Directory    string   `json:"directory"` // state_dir or data_dir
	MinFreeBytes uint64   `json:"min_free_bytes"`
	Controllers  []string `json:"controllers,omitempty"` // targets that it dials
	TLSDir       string   `json:"tls_dir,omitempty"`
	PKIDir       string   `json:"pki_dir,omitempty"`
	Listen       string   `json:"listen,omitempty"`
	PeerListen   string   `json:"peer_listen,omitempty"`
}

// The roles of a host.
const (
	Node       = "node"
	Controller = "controller"
)

// Report is what "gnoded doctor" and "gctld doctor" print as JSON.
type Report struct {
	Host     Host      `json:"host"`
	Findings []Finding `json:"findings"`
}

// Good is a finding that all is well.
func Good(check, seen string) Finding { return Finding{Check: check, Status: OK, Seen: seen} }

// Bad is a failure.
func Bad(check, seen, means, fix string) Finding {
	return Finding{check, Failed, seen, means, fix}
}

// Doubtful is a warning.
func Doubtful(check, seen, means, fix string) Finding {
	return Finding{check, Warning, seen, means, fix}
}

// Unseen is for what could not be looked at, and why.
func Unseen(check, why string) Finding { return Finding{Check: check, Status: Skipped, Seen: why} }
