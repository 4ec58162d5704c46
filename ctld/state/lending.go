package state

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Lending says on what terms a node's owner lends it. Each field has its value, also where
// that is the default. It belongs to the owner: when the node gets another one, it is
// forgotten. A stored one is never changed.
type Lending struct {
	Owner    string `cbor:"1,keyasint,omitempty"` // whose it is; "" = the site's
	NoticeMS uint32 `cbor:"2,keyasint"`           // how long guests have to leave where no command says
	// Unbounded: guests of which nobody can say how long they take to leave are admitted.
	Unbounded bool     `cbor:"3,keyasint,omitempty"`
	Hours     string   `cbor:"4,keyasint"` // as spec.ParseWeek reads them
	TimeZone  string   `cbor:"5,keyasint,omitempty"`
	GPUs      uint32   `cbor:"6,keyasint"`           // percent of the node's that guests have at most
	Accounts  []string `cbor:"7,keyasint,omitempty"` // ascending; whose jobs are admitted, nil = everybody's
	// The most that guests have there all together; NoLimit = all that there is.
	ParkedMemoryBytes uint64 `cbor:"8,keyasint"`
	GuestMemoryBytes  uint64 `cbor:"9,keyasint"`
	GuestTmpBytes     uint64 `cbor:"10,keyasint"`
	// MaxUnsavedS is the longest time limit of a guest that is not saved while it runs;
	// spec.Unlimited = none.
	MaxUnsavedS uint32              `cbor:"11,keyasint"`
	Triggers    []pb.ReclaimTrigger `cbor:"12,keyasint,omitempty"` // ascending
	QuietS      uint32              `cbor:"13,keyasint"`           // how long after the last one it is lent again
	// GuestNetwork is what they send in a second, and what they receive, in bytes; 0 = what they like.
	GuestNetwork uint64 `cbor:"14,keyasint,omitempty"`
	// GuestPower is what each GPU draws that a guest has, in watts; 0 = what it likes.
	GuestPower uint32 `cbor:"15,keyasint,omitempty"`
	// GuestIO is what guests read from each disk in a second, and what they write, in bytes;
	// 0 = what they like.
	GuestIO uint64 `cbor:"16,keyasint,omitempty"`
	// Images says which container images guests may have; nil = all that the site allows.
	Images *policy.Images `cbor:"17,keyasint,omitempty"`
	// Network is the rule for the network of guests; NetworkAsSite: see tables.guestNetwork.
	Network policy.NetworkRule `cbor:"18,keyasint,omitempty"`
	// Allow is where guests with a network of their own may connect to, as in Outside.
	Allow []string `cbor:"19,keyasint,omitempty"`
	// Nested: see tables.nestedOn.
	Nested bool   `cbor:"700,keyasint,omitempty"`
	By     string `cbor:"20,keyasint,omitempty"`
	AtMS   int64  `cbor:"21,keyasint"`
}

// The default terms of lending.
const (
	DefaultNoticeMS = 60_000
	DefaultQuietS   = 900
)

// defaultLending are the terms where an owner has said nothing.
func defaultLending() Lending {
	return Lending{
		NoticeMS: DefaultNoticeMS, Unbounded: true, Hours: spec.Always, GPUs: 100,
		ParkedMemoryBytes: bounds.NoLimit, GuestMemoryBytes: bounds.NoLimit, GuestTmpBytes: bounds.NoLimit,
		MaxUnsavedS: spec.Unlimited, QuietS: DefaultQuietS,
	}
}

// Terms are those in force, also where nothing was set and the record is nil.
func (l *Lending) Terms() Lending {
	if l == nil {
		return defaultLending()
	}
	return *l
}

// lendingSettings are the fields that an owner sets, by the name in the message, with what
// copies one.
var lendingSettings = map[string]func(to, from *Lending){
	"notice_ms":           func(to, from *Lending) { to.NoticeMS = from.NoticeMS },
	"unbounded":           func(to, from *Lending) { to.Unbounded = from.Unbounded },
	"hours":               func(to, from *Lending) { to.Hours = from.Hours },
	"time_zone":           func(to, from *Lending) { to.TimeZone = from.TimeZone },
	"gpu_percent":         func(to, from *Lending) { to.GPUs = from.GPUs },
	"accounts":            func(to, from *Lending) { to.Accounts = sortedSet(from.Accounts) },
	"parked_memory_bytes": func(to, from *Lending) { to.ParkedMemoryBytes = from.ParkedMemoryBytes },
	"guest_memory_bytes":  func(to, from *Lending) { to.GuestMemoryBytes = from.GuestMemoryBytes },
	"guest_tmp_bytes":     func(to, from *Lending) { to.GuestTmpBytes = from.GuestTmpBytes },
	"guest_network_bytes": func(to, from *Lending) { to.GuestNetwork = from.GuestNetwork },
	"guest_power_watts":   func(to, from *Lending) { to.GuestPower = from.GuestPower },
	"guest_io_bytes":      func(to, from *Lending) { to.GuestIO = from.GuestIO },
	"network":             func(to, from *Lending) { to.Network = from.Network },
	"network_allow":       func(to, from *Lending) { to.Allow = from.Allow },
	"nested_containers":   func(to, from *Lending) { to.Nested = from.Nested },
	"image_rules":         func(to, from *Lending) { to.Images = from.Images },
	"max_unsaved_s":       func(to, from *Lending) { to.MaxUnsavedS = from.MaxUnsavedS },
	"triggers":            func(to, from *Lending) { to.Triggers = sortedSet(from.Triggers) },
	"quiet_s":             func(to, from *Lending) { to.QuietS = from.QuietS },
}

// sortedSet is a list ascending, each once; nil if it is empty.
func sortedSet[T ~string | ~int32](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	set := slices.Clone(list)
	slices.Sort(set)
	return slices.Compact(set)
}

// Bounds of what an owner sets.
const (
	maxLendingAccounts = 256
	maxTimeZoneBytes   = 64
	maxQuietS          = 7 * 24 * 3600
	minNetworkBytes    = 1 << 10
	maxNetworkBytes    = 1 << 50
	maxPowerWatts      = 100_000
	minIOBytes         = 1 << 16 // below that not even a page of a program is read
	maxIOBytes         = 1 << 50
)

// check says what is wrong with terms, and what to type instead.
func (l *Lending) check(accounts *accounting) *Refusal {
	switch {
	case l.NoticeMS < MinReclaimMS || l.NoticeMS > MaxReclaimMS:
		return refuse(Invalid, "guests have between 1 second and 24 hours to leave: use --notice=60s, for example")
	case l.GPUs > 100:
		return refuse(Invalid, "guests cannot have %d%% of the GPUs: use --gpus=0%% to --gpus=100%%", l.GPUs)
	case len(l.Accounts) > maxLendingAccounts:
		return refuse(Exhausted, "%d accounts are too many: name at most %d, or an account above them", len(l.Accounts), maxLendingAccounts)
	case !validZone(l.TimeZone):
		return refuse(Invalid, "time zone %s: use a name such as Europe/Berlin", bounds.Quoted(l.TimeZone))
	case l.QuietS == 0 || l.QuietS > maxQuietS:
		return refuse(Invalid, "a node is quiet after 1 second to 7 days: use --quiet=15m, for example")
	case l.GuestNetwork != 0 && (l.GuestNetwork < minNetworkBytes || l.GuestNetwork > maxNetworkBytes):
		return refuse(Invalid, "guests send and receive between 1K and 1024T in a second: use --guest-network=100M, for example, or --guest-network=unlimited")
	case l.GuestPower > maxPowerWatts:
		return refuse(Invalid, "no GPU draws %d watts: use --guest-power=200W, for example, or --guest-power=unlimited", l.GuestPower)
	case l.GuestIO != 0 && (l.GuestIO < minIOBytes || l.GuestIO > maxIOBytes):
		return refuse(Invalid, "guests read and write between 64K and 1024T in a second: use --guest-io=50M, for example, or --guest-io=unlimited")
	case l.Network > policy.NetworkPrivateOnly:
		return refuse(Invalid, "no such network of guests: use --network=private-only, --network=private or --network=host")
	case l.MaxUnsavedS == 0:
		return refuse(Invalid, "no guest runs for no time: use --max-time=4h, for example, or --max-time=unlimited")
	case len(l.By) > bounds.MaxNameBytes:
		return refuse(Invalid, "the name of the user is longer than %d bytes", bounds.MaxNameBytes)
	}
	for _, trigger := range l.Triggers {
		if trigger != pb.ReclaimTrigger_RECLAIM_TRIGGER_GPU_PROCESS && trigger != pb.ReclaimTrigger_RECLAIM_TRIGGER_LOGIN {
			return refuse(Invalid, "no such trigger: use --triggers=gpu, --triggers=login, both or none")
		}
	}
	for _, name := range l.Accounts {
		if !accounts.hasAccount(name) {
			return refuse(Invalid, "account %s does not exist: gacctmgr show account tells which do", bounds.Quoted(name))
		}
	}
	if _, err := spec.ParseDestinations(l.Allow); err != nil {
		return refuse(Invalid, "--network-allow: %v", err)
	}
	if _, err := spec.ParseWeek(l.Hours); err != nil {
		return refuse(Invalid, "%v", err)
	}
	if err := spec.CheckImageRules(l.ImageRules(), spec.OwnerRules); err != nil {
		return refuse(Invalid, "%v", err)
	}
	return nil
}

// validZone reports whether a word may name a time zone. Which there are depends on the
// controller's own list, so only the api asks that.
func validZone(name string) bool {
	if len(name) > maxTimeZoneBytes {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '/' || c == '_' || c == '-' || c == '+') {
			return false
		}
	}
	return true
}

// checkLent says what is wrong with the terms of a node.
func (t *tables) checkLent(node *Node) error {
	_, indexed := t.lending.Get(node.Name)
	switch {
	case indexed != (node.Lending != nil):
		return fmt.Errorf("node %s: whether it has terms of lending is not what the index says", node.Name)
	case node.Lending == nil:
		return nil
	case node.Lending.Owner != t.policy.OwnerOf(node.Name):
		return fmt.Errorf("node %s belongs to %q, its terms of lending are those of %q", node.Name, t.policy.OwnerOf(node.Name), node.Lending.Owner)
	}
	if refused := node.Lending.check(&t.accounting); refused != nil {
		return fmt.Errorf("node %s: %s", node.Name, refused.Message)
	}
	return nil
}

// Message is the terms as clients and nodes see them; nil where nothing was set.
func (l *Lending) Message() *pb.Lending {
	if l == nil {
		return nil
	}
	return &pb.Lending{
		Owner: l.Owner, NoticeMs: l.NoticeMS, Unbounded: l.Unbounded, Hours: l.Hours, TimeZone: l.TimeZone, GpuPercent: l.GPUs,
		Accounts: l.Accounts, ParkedMemoryBytes: l.ParkedMemoryBytes, GuestMemoryBytes: l.GuestMemoryBytes, GuestTmpBytes: l.GuestTmpBytes,
		MaxUnsavedS: l.MaxUnsavedS, Triggers: l.Triggers, QuietS: l.QuietS, GuestNetworkBytes: l.GuestNetwork,
		GuestPowerWatts: l.GuestPower, GuestIoBytes: l.GuestIO, ImageRules: l.ImageRules(), Network: l.Network.String(), NetworkAllow: l.Allow, NestedContainers: l.Nested, By: l.By, AtMs: l.AtMS,
	}
}

// LendingFromMessage are terms as a client gives them. SetLending checks them.
func LendingFromMessage(m *pb.Lending) Lending {
	return Lending{
		NoticeMS: m.GetNoticeMs(), Unbounded: m.GetUnbounded(), Hours: m.GetHours(), TimeZone: m.GetTimeZone(), GPUs: m.GetGpuPercent(),
		Accounts: m.GetAccounts(), ParkedMemoryBytes: m.GetParkedMemoryBytes(), GuestMemoryBytes: m.GetGuestMemoryBytes(), GuestTmpBytes: m.GetGuestTmpBytes(),
		MaxUnsavedS: m.GetMaxUnsavedS(), Triggers: m.GetTriggers(), QuietS: m.GetQuietS(), GuestNetwork: m.GetGuestNetworkBytes(),
		GuestPower: m.GetGuestPowerWatts(), GuestIO: m.GetGuestIoBytes(), Images: policy.OwnersImages(m.GetImageRules()),
		Network: policy.NetworkRuleOf(m.GetNetwork()), Allow: allowOf(m.GetNetworkAllow()), Nested: m.GetNestedContainers(),
	}
}
