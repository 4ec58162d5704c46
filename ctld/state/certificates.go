package state

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
)

// Bounds of the records of certificates.
const (
	MaxCertificates           = 1 << 16
	MaxCertificatesPerCommand = 1024
)

// Certificate is one that the cluster's authority has issued. A node's and a
// login host's count only while their record is here and is not revoked: so the site
// admits them by name. Others count unless they are revoked. A stored Certificate is never
// changed.
type Certificate struct {
	Serial  string `cbor:"1,keyasint"` // in hexadecimal
	Kind    string `cbor:"2,keyasint"` // of its holder: "node", "host", "user" or "controller"
	Name    string `cbor:"3,keyasint"`
	FromMS  int64  `cbor:"4,keyasint"`
	UntilMS int64  `cbor:"5,keyasint"`
	// RevokedMS is when it was revoked; 0 = it is not.
	RevokedMS int64  `cbor:"6,keyasint,omitempty"`
	RevokedBy string `cbor:"7,keyasint,omitempty"`
}

// Kinds of holders, as certificates name them.
const (
	HolderNode       = "node"
	HolderHost       = "host" // a login host
	HolderUser       = "user"
	HolderController = "controller"
)

// Holder names the owner of the certificate as the certificate does: KIND:NAME.
func (c *Certificate) Holder() string { return c.Kind + ":" + c.Name }

// Certificates are the records, ascending by serial number. Those that have ended
// go when others are recorded.
func (t *tables) Certificates(yield func(*Certificate) bool) {
	t.certificates.Scan(func(_ string, c *Certificate) bool { return yield(c) })
}

// CertificateProblem says why a certificate that the authority has signed is
// refused; "" = it is good.
func (t *tables) CertificateProblem(kind, name, serial string) string {
	c, known := t.certificates.Get(serial)
	switch {
	case known && (c.Kind != kind || c.Name != name):
		return "it is recorded as that of " + c.Holder()
	case known && c.RevokedMS != 0:
		return "it was revoked"
	case !known && (kind == HolderNode || kind == HolderHost):
		return kind + " " + name + " is not admitted: type gctld cert --" + kind + " " + name + " on the host of the controller that began the cluster"
	}
	return ""
}

// RecordCertificates records certificates that the authority has issued. Those
// already recorded stay as they are.
type RecordCertificates struct {
	Certificates []Certificate `cbor:"1,keyasint"`
}

func (RecordCertificates) kind() Kind { return KindRecordCertificates }
func (c RecordCertificates) apply(s *State, result *Result) {
	s.dropEnded()
	if len(c.Certificates) > MaxCertificatesPerCommand || s.certificates.Len()+len(c.Certificates) > MaxCertificates {
		result.Refused = refuse(Exhausted, "%d certificates and %d more are too many: at most %d in one request, and %d in all", s.certificates.Len(), len(c.Certificates), MaxCertificatesPerCommand, MaxCertificates)
		return
	}
	for i := range c.Certificates {
		if result.Refused = c.Certificates[i].check(); result.Refused != nil {
			return
		}
	}
	for _, one := range c.Certificates {
		if _, known := s.certificates.Get(one.Serial); known || one.UntilMS < s.timeMS {
			continue
		}
		one.RevokedMS, one.RevokedBy = 0, ""
		s.certificates.Set(one.Serial, &one)
	}
}

func (c *Certificate) check() *Refusal {
	switch {
	case c.Serial == "" || len(c.Serial) > 40 || strings.Trim(c.Serial, "0123456789abcdef") != "":
		return refuse(Invalid, "%q is no serial number of a certificate", bounds.Clip(c.Serial, bounds.MaxNameBytes))
	case c.Kind != HolderNode && c.Kind != HolderHost && c.Kind != HolderUser && c.Kind != HolderController || c.Name == "" || len(c.Name) > bounds.MaxNameBytes:
		return refuse(Invalid, "%q is no holder of a certificate", bounds.Clip(c.Holder(), bounds.MaxNameBytes))
	}
	return nil
}

// dropEnded forgets certificates that have ended.
func (s *State) dropEnded() {
	var ended []string
	for c := range s.Certificates {
		if c.UntilMS < s.timeMS {
			ended = append(ended, c.Serial)
		}
	}
	for _, serial := range ended {
		s.certificates.Delete(serial)
	}
}

// RevokeCertificates revokes certificates: all that are named or, when one is
// not known, none.
type RevokeCertificates struct {
	// Names are serial numbers, KIND:NAME, or names that one holder has.
	Names []string `cbor:"1,keyasint"`
	User  string   `cbor:"2,keyasint,omitempty"` // who revoked it
}

func (RevokeCertificates) kind() Kind { return KindRevokeCertificates }
func (c RevokeCertificates) apply(s *State, result *Result) {
	var serials []string
	for _, name := range c.Names {
		found, refused := s.certificatesOf(name)
		if refused != nil {
			result.Refused = refused
			return
		}
		serials = append(serials, found...)
	}
	for _, serial := range serials {
		old, _ := s.certificates.Get(serial)
		if old.RevokedMS != 0 {
			continue
		}
		revoked := *old
		revoked.RevokedMS, revoked.RevokedBy = max(s.timeMS, 1), bounds.Clip(c.User, bounds.MaxNameBytes)
		s.certificates.Set(serial, &revoked)
		result.CertificatesRevoked = true
	}
}

// certificatesOf are the serial numbers that a word means.
func (s *State) certificatesOf(word string) ([]string, *Refusal) {
	if _, known := s.certificates.Get(strings.ToLower(word)); known {
		return []string{strings.ToLower(word)}, nil
	}
	var serials, holders []string
	for c := range s.Certificates {
		if c.Holder() == word || c.Name == word {
			serials = append(serials, c.Serial)
			holders = append(holders, c.Holder())
		}
	}
	slices.Sort(holders)
	holders = slices.Compact(holders)
	switch {
	case len(holders) == 0:
		return nil, refuse(NotFound, "no certificate of %q was issued: gctld cert --list shows all", bounds.Clip(cmp.Or(word, "nobody"), bounds.MaxNameBytes))
	case len(holders) > 1:
		return nil, refuse(Invalid, "%q has certificates as %s: name one of these", bounds.Clip(word, bounds.MaxNameBytes), strings.Join(holders, " and "))
	}
	return serials, nil
}
