package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Bounds of who may vouch for whom.
const (
	MaxLogins       = 1024
	MaxLoginHosts   = 1 << 16
	MaxLoginUsers   = 4096 // names in one entry
	defaultMinUID   = 1000 // UID_MIN and UID_MAX of login.defs(5)
	defaultMaxUID   = 60000
	overflowUID     = 65534 // nobody: whoever the kernel cannot name
	rootName        = "root"
	loginHostsWords = "login: "
	mungeWord       = "munge:"
	maxMungeNets    = 1024 // of all entries
)

// Login says for which users hosts vouch. See the message.
type Login struct {
	Hosts      string   `cbor:"1,keyasint"` // host list
	MinUID     uint32   `cbor:"2,keyasint"`
	MaxUID     uint32   `cbor:"3,keyasint"`
	Users      []string `cbor:"4,keyasint,omitempty"` // ascending; none = all
	Privileged []string `cbor:"5,keyasint,omitempty"` // ascending
	// Munge are networks from which credentials of munge are believed: there are no Hosts.
	Munge []string `cbor:"6,keyasint,omitempty"` // ascending
}

// mungeLogin is one network of a Login.
type mungeLogin struct {
	network netip.Prefix
	login   *Login
}

// LoginOf is what a host may vouch for; nil = nobody.
func (p *Policy) LoginOf(host string) *Login { return p.logins[host] }

// MungeLoginOf is for whom a credential of munge speaks that comes from an address; nil =
// for nobody.
func (p *Policy) MungeLoginOf(address netip.Addr) *Login {
	for _, one := range p.mungeLogins {
		if one.network.Contains(address.Unmap()) {
			return one.login
		}
	}
	return nil
}

// name is what an entry is called.
func (l *Login) name() string {
	if len(l.Munge) > 0 {
		return mungeWord + strings.Join(l.Munge, ",")
	}
	return l.Hosts
}

// Problem says why the host may not speak for this user; "" = it may. privileged: the user
// has rights over others, as root, administrators and operators do.
func (l *Login) Problem(uid uint32, user string, privileged bool) string {
	_, named := slices.BinarySearch(l.Privileged, user)
	switch {
	case uid == overflowUID:
		return "the kernel's number for nobody is nobody"
	case (privileged || uid == 0) && !named:
		return "nobody speaks for root, administrators and operators who are not named in privileged"
	case uid == 0:
		return ""
	case !l.contains(uid):
		return fmt.Sprintf("the number is not from %d to %d (min_uid, max_uid)", l.MinUID, l.MaxUID)
	}
	if _, listed := slices.BinarySearch(l.Users, user); len(l.Users) > 0 && !listed && !named {
		return "the name is not among its users"
	}
	return ""
}

func (l *Login) contains(uid uint32) bool { return uid >= l.MinUID && uid <= l.MaxUID }

// MayCount says whether a request of this host may count as one of a user: what it says of
// others is nothing to them.
func (l *Login) MayCount(uid uint32) bool {
	return l != nil && uid != overflowUID && (l.contains(uid) || uid == 0 && slices.Contains(l.Privileged, rootName))
}

// normalizeLogins checks that a host is in one entry at most.
func (p *Policy) normalizeLogins() error {
	if len(p.Logins) > MaxLogins {
		return fmt.Errorf(loginHostsWords+"%d are too many: at most %d", len(p.Logins), MaxLogins)
	}
	p.Logins = slices.Clone(p.Logins)
	for i := range p.Logins {
		if err := p.Logins[i].normalize(); err != nil {
			return err
		}
	}
	slices.SortFunc(p.Logins, func(a, b Login) int { return cmp.Compare(a.name(), b.name()) })
	p.logins, p.mungeLogins = nil, nil
	for i := range p.Logins {
		if err := p.takeLogin(&p.Logins[i]); err != nil {
			return err
		}
	}
	return nil
}

func (l *Login) normalize() error {
	normalizeFrom := l.normalizeHosts
	if len(l.Munge) > 0 {
		normalizeFrom = l.normalizeMunge
	}
	if err := normalizeFrom(); err != nil {
		return err
	}
	l.MinUID, l.MaxUID = cmp.Or(l.MinUID, defaultMinUID), cmp.Or(l.MaxUID, defaultMaxUID)
	if l.MinUID > l.MaxUID {
		return fmt.Errorf(loginHostsWords+"%s: min_uid = %d is above max_uid = %d", bounds.Clip(l.name(), bounds.MaxNameBytes), l.MinUID, l.MaxUID)
	}
	for _, list := range []*[]string{&l.Users, &l.Privileged} {
		*list = slices.Clone(*list)
		slices.Sort(*list)
		*list = slices.Compact(*list)
		if len(*list) > MaxLoginUsers {
			return fmt.Errorf(loginHostsWords+"%s: %d users are too many: at most %d; or give a range of numbers", bounds.Clip(l.name(), bounds.MaxNameBytes), len(*list), MaxLoginUsers)
		}
		for _, name := range *list {
			if name == "" || len(name) > bounds.MaxNameBytes || strings.ContainsAny(name, ":,\n\x00") {
				return fmt.Errorf(loginHostsWords+"%s: %q is no login name", bounds.Clip(l.name(), bounds.MaxNameBytes), bounds.Clip(name, bounds.MaxNameBytes))
			}
		}
	}
	return nil
}

func (l *Login) normalizeHosts() error {
	names, err := spec.ParseHostList(l.Hosts)
	switch {
	case err != nil:
		return fmt.Errorf(loginHostsWords+"hosts: %w", err)
	case len(names) == 0 || strings.EqualFold(l.Hosts, allNodes):
		return fmt.Errorf(loginHostsWords + "name the hosts in a host list such as login[1-2]")
	}
	l.Hosts = spec.FormatHostList(names)
	return nil
}

func (l *Login) normalizeMunge() error {
	if l.Hosts != "" {
		return fmt.Errorf(loginHostsWords+"hosts = %q and munge are two ways in: give each a [[login]] of its own", bounds.Clip(l.Hosts, bounds.MaxNameBytes))
	}
	if len(l.Munge) > maxMungeNets {
		return fmt.Errorf(loginHostsWords+"%d networks are too many: at most %d", len(l.Munge), maxMungeNets)
	}
	networks := make([]netip.Prefix, 0, len(l.Munge))
	for _, text := range l.Munge {
		network, err := netip.ParsePrefix(text)
		if one, oneErr := netip.ParseAddr(text); oneErr == nil && one.Zone() == "" {
			network, err = netip.PrefixFrom(one, one.BitLen()), nil
		}
		if err != nil || network.Addr().Is4In6() {
			return fmt.Errorf(loginHostsWords+"munge: %q is no network: give an address and how many of its bits count, as in 10.1.0.0/16", bounds.Clip(text, bounds.MaxNameBytes))
		}
		networks = append(networks, network.Masked())
	}
	slices.SortFunc(networks, netip.Prefix.Compare)
	l.Munge = make([]string, len(networks))
	for i, network := range networks {
		l.Munge[i] = network.String()
	}
	l.Munge = slices.Compact(l.Munge)
	return nil
}

// takeMunge checks that each address is in one entry at most.
func (p *Policy) takeMunge(l *Login) error {
	for _, text := range l.Munge {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf(loginHostsWords+"munge: %w", err)
		}
		for _, other := range p.mungeLogins {
			if other.network.Overlaps(network) {
				return fmt.Errorf(loginHostsWords+"the networks %v and %v of munge have addresses in common: leave those in one [[login]]", other.network, network)
			}
		}
		if p.mungeLogins = append(p.mungeLogins, mungeLogin{network, l}); len(p.mungeLogins) > maxMungeNets {
			return fmt.Errorf(loginHostsWords+"more than %d networks of munge: give fewer and larger ones", maxMungeNets)
		}
	}
	return nil
}

func (p *Policy) takeLogin(l *Login) error {
	if len(l.Munge) > 0 {
		return p.takeMunge(l)
	}
	names, err := spec.ParseHostList(l.Hosts)
	if err != nil {
		return fmt.Errorf(loginHostsWords+"hosts: %w", err)
	}
	if len(p.logins)+len(names) > MaxLoginHosts {
		return fmt.Errorf(loginHostsWords+"more than %d hosts: name fewer", MaxLoginHosts)
	}
	if p.logins == nil {
		p.logins = make(map[string]*Login, len(names))
	}
	for _, name := range names {
		if p.logins[name] != nil {
			return fmt.Errorf(loginHostsWords+"host %s is named twice: leave it in one [[login]]", bounds.Clip(name, bounds.MaxNameBytes))
		}
		p.logins[name] = l
	}
	return nil
}

func diffLogins(changes []*pb.PolicyChange, before, after *Policy) []*pb.PolicyChange {
	return diffNamed(changes, "logins.", before.Logins, after.Logins,
		(*Login).name, func(l *Login) []setting {
			return []setting{{".min_uid", fmt.Sprint(l.MinUID)}, {".max_uid", fmt.Sprint(l.MaxUID)},
				{".users", strings.Join(l.Users, ",")}, {".privileged", strings.Join(l.Privileged, ",")}}
		})
}

func (p *Policy) readLogins(message *pb.Policy) {
	for _, m := range message.GetLogins() {
		p.Logins = append(p.Logins, Login{Hosts: m.GetHosts(), Munge: m.GetMunge(), MinUID: m.GetMinUid(), MaxUID: m.GetMaxUid(), Users: m.GetUsers(), Privileged: m.GetPrivileged()})
	}
}

func (p *Policy) writeLogins(message *pb.Policy) {
	for i := range p.Logins {
		l := &p.Logins[i]
		message.Logins = append(message.Logins, &pb.Login{Hosts: l.Hosts, Munge: l.Munge, MinUid: l.MinUID, MaxUid: l.MaxUID, Users: l.Users, Privileged: l.Privileged})
	}
}

// LoginEntries are the hosts that vouch as "gcontrol show config" lists them.
func (p *Policy) LoginEntries() []*pb.ConfigEntry {
	var entries []*pb.ConfigEntry
	for i := range p.Logins {
		l := &p.Logins[i]
		whom := fmt.Sprintf("uid %d-%d", l.MinUID, l.MaxUID)
		if len(l.Users) > 0 {
			whom += " of " + strings.Join(l.Users, ",")
		}
		if len(l.Privileged) > 0 {
			whom += ", privileged " + strings.Join(l.Privileged, ",")
		}
		entries = append(entries, &pb.ConfigEntry{Key: "Login[" + l.name() + "]", Value: whom})
	}
	return entries
}
