package network

import (
	"crypto/sha256"
	"encoding/base32"
	"net/netip"
	"strings"
)

// Prefix begins the names of all links and tables.
const Prefix = "gl"

// Inside is the name of the link in the job's namespace.
const Inside = "eth0"

// DNS is where a job asks for names: an address on its own loopback interface, at which
// its supervisor answers with what the node's name servers say.
var DNS = netip.MustParseAddr("169.254.1.53")

// Gateways are addresses that nobody has: the job sends to the other end of its link, whose
// hardware address it knows.
var (
	gateway4 = netip.MustParseAddr("169.254.1.1")
	gateway6 = netip.MustParseAddr("fe80::1")
)

// MaxConnections is how many connections through the node a job may have at a time. The
// kernel remembers each, and has room for some hundred thousand.
const MaxConnections = 16384

// Plan is what the network of one job is to be.
type Plan struct {
	Link   string     // on the node; the table has the same name
	V4, V6 netip.Addr // of the job; V6 is used only if Six
	Six    bool       // the node passes on IPv6
	Ranges Ranges     // of all jobs
	Policy Policy
	// Guarded are interfaces of the node that pass on packets for the sake of jobs only.
	Guarded []string
}

// LinkName is the name of a job's link. who is what identifies the job's allocation on
// this machine. A name of an interface has 15 bytes at most.
func LinkName(who string) string {
	sum := sha256.Sum256([]byte(who))
	return Prefix + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:8])[:12])
}

// Verdict is what becomes of a packet.
type Verdict int

const (
	Accept Verdict = iota
	Drop
	Refuse     // the sender is told
	Masquerade // it leaves with the node's address
)

// Rule says what becomes of the packets to which all of it applies. A zero field applies
// to all packets.
type Rule struct {
	In, Out   string // interface
	NotToJobs bool   // it does not leave to a job
	From, To  netip.Prefix
	NotOut    string // interface
	IPv4      bool
	Protocol  uint8 // of IP
	Ports     PortRange
	Known     bool   // it belongs to a connection that was let through
	Above     uint64 // bytes a second were sent already
	Full      uint32 // connections are open already
	Verdict   Verdict
}

// Hook is where the kernel looks at packets.
type Hook string

// Hooks.
const (
	Forward     Hook = "forward"     // from one interface to another
	Input       Hook = "input"       // to the node itself
	Output      Hook = "output"      // from the node itself
	Postrouting Hook = "postrouting" // leaving it
)

// Chain is the rules of a hook: the first that applies decides. A packet to which none
// applies is let through.
type Chain struct {
	Hook  Hook
	Rules []Rule
}

// never are where no job may send, whatever the policy: the node's neighbourhood, where
// clouds have the secrets of machines, and many receivers at once.
var never = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("255.255.255.255/32"),
	netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"), netip.MustParsePrefix("fd00:ec2::254/128"),
}

// Chains are the rules of a job's table.
func (p *Plan) Chains() []Chain {
	known := func(r Rule) Rule { r.Known = true; return r }
	to, from := Rule{Out: p.Link}, Rule{In: p.Link}
	drop := func(r Rule) Rule { r.Verdict = Drop; return r }
	refuse := func(r Rule) Rule { r.Verdict = Refuse; return r }
	var forward []Rule
	if rate := p.Policy.BytesPerSecond; rate > 0 {
		forward = append(forward, drop(Rule{In: p.Link, Above: rate}), drop(Rule{Out: p.Link, Above: rate}))
	}
	forward = append(forward, known(from), known(to), refuse(to))
	for _, net := range append([]netip.Prefix{p.Ranges.V4, p.Ranges.V6}, never...) {
		forward = append(forward, refuse(Rule{In: p.Link, To: net}))
	}
	forward = append(forward, refuse(Rule{In: p.Link, Full: MaxConnections}))
	forward = append(forward, p.allowed()...)
	forward = append(forward, guarding(p.Guarded)...)
	masquerade := []Rule{{From: netip.PrefixFrom(p.V4, 32), NotOut: p.Link, Verdict: Masquerade}}
	if p.Six {
		masquerade = append(masquerade, Rule{From: netip.PrefixFrom(p.V6, 128), NotOut: p.Link, Verdict: Masquerade})
	}
	return []Chain{
		{Forward, forward},
		{Input, []Rule{known(from), refuse(from)}},
		{Output, []Rule{known(to), refuse(to)}},
		{Postrouting, masquerade},
	}
}

// guarding are the rules by which interfaces pass nothing on but to jobs.
func guarding(uplinks []string) (rules []Rule) {
	for _, uplink := range uplinks {
		rules = append(rules, Rule{In: uplink, NotToJobs: true, IPv4: true, Verdict: Drop})
	}
	return rules
}

// allowed are the rules of the destinations of the policy.
func (p *Plan) allowed() (rules []Rule) {
	if p.Policy.Anywhere() {
		return nil
	}
	for _, d := range p.Policy.Allow {
		rule := Rule{In: p.Link, To: d.Net}
		if d.First == 0 {
			rules = append(rules, rule)
			continue
		}
		for _, protocol := range []uint8{protocolTCP, protocolUDP} {
			rule.Protocol, rule.Ports = protocol, PortRange{d.First, d.Last}
			rules = append(rules, rule)
		}
	}
	return append(rules, Rule{In: p.Link, Verdict: Refuse})
}

// Protocols of IP.
const (
	protocolTCP = 6
	protocolUDP = 17
)
