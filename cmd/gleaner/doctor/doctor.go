// Package doctor is gdoctor: it finds out what a host is to the cluster, looks
// at everything that Gleaner needs there, and says what is wrong with its fix.
//
// What it promises: it changes nothing, leaves nothing behind, shows no secret,
// and comes to an end whatever hangs. What only a daemon's own code can tell,
// "gctld doctor" and "gnoded doctor" tell, as programs of their own; the rest
// is looked at here: disks, certificates, controllers, clock, daemons.
//
// What it needs: nothing; without root, and without the daemons' programs, it
// says what it could not see.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/dial"
	"github.com/gleaner-hpc/gleaner/proto/finding"
)

// userRole is the role of a host on which users type commands; finding.Node and
// finding.Controller are the others.
const userRole = "user"

// examination says what is examined.
type examination struct {
	Roles   []string // empty = what the host is found to be
	Config  string   // the daemon's configuration; needs one role
	Targets []string // controllers, for the role of a user
	TLSDir  string   // certificates for these
	Quick   bool     // without timing disks and starting containers
}

// diagnosis is what was found out.
type diagnosis struct {
	Hosts    []finding.Host    // the daemons of this host, as configured
	Findings []finding.Finding // in the order to be shown
	Hint     string            // what the caller could examine besides; "" = nothing
}

// daemonLimit bounds the examination that a daemon's program makes.
const daemonLimit = 100 * time.Second

// examine examines this host.
func examine(ctx context.Context, o examination) (*diagnosis, error) {
	sites, hint, err := findSites(o)
	if err != nil {
		return nil, err
	}
	r := &diagnosis{Hint: hint}
	var daemons []finding.Check
	reports := make([]*finding.Report, len(sites))
	for i, s := range sites {
		if s.role == userRole {
			continue
		}
		daemons = append(daemons, finding.Check{Name: s.program(), Limit: daemonLimit, Run: func(ctx context.Context) []finding.Finding {
			report, found := s.ask(ctx, o.Quick)
			reports[i] = report
			return found
		}})
	}
	asked := finding.Run(ctx, daemons)
	for i, report := range reports {
		if report != nil {
			report.Findings = mark(report.Findings, sites, sites[i].role, report.Host.Name)
			r.Hosts = append(r.Hosts, report.Host)
			r.Findings = append(r.Findings, report.Findings...)
		}
	}
	r.Findings = append(r.Findings, asked...)
	r.Findings = append(r.Findings, finding.Run(ctx, r.hostChecks(o, sites))...)
	if !o.Quick { // last and alone, so that nothing else uses the disk
		r.Findings = append(r.Findings, finding.Run(ctx, r.timings())...)
	}
	r.Findings = once(r.Findings)
	return r, nil
}

// hostChecks are those that need no daemon's code.
func (r *diagnosis) hostChecks(o examination, sites []*site) []finding.Check {
	checks := []finding.Check{{Name: "clock", Run: checkClock}}
	for _, host := range r.Hosts {
		checks = append(checks, finding.Check{Name: "disk of " + host.Directory, Run: func(context.Context) []finding.Finding { return checkDisk(host) }})
		if host.TLSDir != "" {
			checks = append(checks, finding.Check{Name: "certificate in " + host.TLSDir, Run: func(context.Context) []finding.Finding { return checkBundle(host.TLSDir, host.Role, host.Name) }})
		}
		if host.PKIDir != "" {
			checks = append(checks, finding.Check{Name: "certificates in " + host.PKIDir, Run: func(context.Context) []finding.Finding { return checkAuthority(host.PKIDir, host.Name) }})
		}
		if host.Config != "" {
			checks = append(checks, finding.Check{Name: "configuration file", Run: func(context.Context) []finding.Finding { return checkConfigFile(host) }})
		}
		for _, l := range []struct{ key, address string }{{"listen", host.Listen}, {"peer_listen", host.PeerListen}} {
			if l.address != "" {
				checks = append(checks, finding.Check{Name: l.key, Run: func(ctx context.Context) []finding.Finding {
					return checkListen(ctx, l.key, l.address, runs(sites, &host))
				}})
			}
		}
		if host.Role == finding.Controller && runs(sites, &host) {
			checks = append(checks, finding.Check{Name: "controllers among themselves", Run: func(ctx context.Context) []finding.Finding { return checkPeers(ctx, host) }})
		}
	}
	for _, s := range sites {
		if s.role == userRole && o.TLSDir != "" {
			checks = append(checks, finding.Check{Name: "certificate in " + o.TLSDir, Run: func(ctx context.Context) []finding.Finding { return checkOwn(ctx, o.TLSDir) }})
		}
		checks = append(checks, s.daemonChecks()...)
	}
	for _, c := range r.contacts(o, sites) {
		checks = append(checks, finding.Check{Name: "controller " + c.target, Limit: contactLimit, Run: c.check})
	}
	return checks
}

// timings time each disk that a daemon writes to.
func (r *diagnosis) timings() (checks []finding.Check) {
	for _, host := range r.Hosts {
		checks = append(checks, finding.Check{Name: "speed of " + host.Directory, Limit: timingLimit, Run: func(ctx context.Context) []finding.Finding { return checkSpeed(ctx, host) }})
	}
	return checks
}

// contacts are the controllers that users and daemons on this host speak to.
func (r *diagnosis) contacts(o examination, sites []*site) (contacts []contact) {
	seen := map[contact]bool{}
	add := func(target, tlsDir string) {
		c := contact{target: target}
		if !strings.HasPrefix(target, "unix://") {
			c.tlsDir = tlsDir
		}
		if !seen[c] {
			seen[c] = true
			contacts = append(contacts, c)
		}
	}
	for _, host := range r.Hosts {
		if host.Config == "" && !runs(sites, &host) {
			continue // the configuration does not name the controllers yet
		}
		for _, target := range host.Controllers {
			add(target, host.TLSDir)
		}
	}
	for _, s := range sites {
		if s.role != userRole {
			continue
		}
		dir := o.TLSDir
		if socket, _ := dial.Munged(dir); socket != "" {
			dir = "" // as a user's commands do, which show no certificate then
		}
		for _, target := range o.Targets {
			add(target, dir)
		}
	}
	return contacts
}

// runs reports whether the daemon of a host runs.
func runs(sites []*site, host *finding.Host) bool {
	return slices.ContainsFunc(sites, func(s *site) bool {
		return s.role == host.Role && s.running != 0 && (s.config == host.Config || host.Config == "")
	})
}

// mark puts a daemon's name before its checks where there are several of one
// role on the host.
func mark(found []finding.Finding, sites []*site, role, name string) []finding.Finding {
	others := slices.DeleteFunc(slices.Clone(sites), func(s *site) bool { return s.role != role })
	if len(others) < 2 {
		return found
	}
	for i := range found {
		found[i].Check = fmt.Sprintf("%s %s: %s", role, name, found[i].Check)
	}
	return found
}

// once leaves out what has been said already.
func once(found []finding.Finding) []finding.Finding {
	seen := map[finding.Finding]bool{}
	kept := found[:0]
	for _, f := range found {
		if !seen[f] {
			seen[f] = true
			kept = append(kept, f)
		}
	}
	return kept
}
