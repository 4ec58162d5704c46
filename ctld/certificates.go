package ctld

import (
	"context"
	"crypto/x509"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/pki"
	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// How often to look whether certificates were issued, and whether this
// controller's own certificate is due for renewal. Variables for tests.
var (
	issuedEvery = 500 * time.Millisecond
	renewEvery  = time.Minute
)

// tellLimit bounds one attempt at either.
const tellLimit = 20 * time.Second

// cutRevoked closes the connections on which a certificate was shown that has
// been revoked, until ctx ends. New requests over them are refused as soon as
// the log says so; this ends requests under way.
func (s *Server) cutRevoked(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.cluster.revoked:
		}
		view := s.cluster.View()
		bad := func(shown *x509.Certificate) bool {
			kind, name, _ := pki.Holder(shown)
			return view.CertificateProblem(string(kind), name, pki.Serial(shown)) != ""
		}
		cut := 0
		if s.credentials != nil {
			cut += s.credentials.Cut(bad)
		}
		if s.wire != nil {
			cut += s.wire.Cut(bad)
		}
		if cut > 0 {
			s.log.Info("cut connections of certificates that are refused now", "count", cut)
		}
	}
}

// tellIssued tells all controllers what is issued here, if this host has the
// authority's key, until ctx ends: a node's certificate counts from then on.
// What was issued while this controller was down is told when it is up again.
func (s *Server) tellIssued(ctx context.Context) {
	tick := time.NewTicker(issuedEvery)
	defer tick.Stop()
	var told time.Time // when the last reported one was issued
	for {
		if at := s.certificates.IssuedAt(); !at.IsZero() && !at.Equal(told) && s.tellOnce(ctx) {
			told = at
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// tellOnce reports whether everything has been told.
func (s *Server) tellOnce(ctx context.Context) bool {
	issued, err := s.certificates.Issued(time.Now())
	if err != nil {
		s.log.Warn("cannot read what certificates were issued here; look at the data directory", "error", err)
		return true // until the next is issued
	}
	known := make(map[string]bool)
	for c := range s.cluster.View().Certificates {
		known[c.Serial] = true
	}
	var missing [][]byte
	for _, certificate := range issued {
		if !known[pki.Serial(certificate)] && len(missing) < state.MaxCertificatesPerCommand {
			missing = append(missing, certificate.Raw)
		}
	}
	if len(missing) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, tellLimit)
	defer cancel()
	if err := s.api.TellIssued(ctx, missing); err != nil {
		s.log.Debug("certificates that were issued here are not recorded yet", "count", len(missing), "error", err)
		return false
	}
	s.log.Info("certificates recorded", "count", len(missing))
	return len(missing) < state.MaxCertificatesPerCommand
}

// renewCertificate renews this controller's own certificate in time, until ctx ends.
func (s *Server) renewCertificate(ctx context.Context, name string) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		renewed, err := s.certificates.Renew(name, time.Now(), func(request []byte) ([]byte, error) {
			limited, cancel := context.WithTimeout(ctx, tellLimit)
			defer cancel()
			return s.api.AskRenewal(limited, request)
		})
		switch {
		case err != nil && ctx.Err() == nil:
			s.log.Warn("this controller's certificate could not be renewed; it is tried again", "error", err)
		case renewed:
			s.log.Info("this controller's certificate was renewed")
		}
	}
}
