package ctld

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/api"
	"github.com/gleaner-hpc/gleaner/ctld/peerlink"
	"github.com/gleaner-hpc/gleaner/ctld/pki"
	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// installCertificates copies what was issued to this controller into its data
// directory. A controller that joins needs it: it must not make an authority of
// its own.
func installCertificates(config *Config) error {
	dir := PKIDir(config.DataDir)
	if config.Certificates != "" {
		if _, err := pki.Install(config.Certificates, dir); err != nil {
			return err
		}
	}
	if config.Join && !pki.Present(dir) {
		return fmt.Errorf("%w: to join a cluster this controller needs certificates of it: run gctld cert --controller NAME --out DIR on the host of the controller that began it, copy DIR here and add --certificates DIR", ErrConfig)
	}
	return nil
}

// openCertificates loads the cluster's authority, as far as it is here.
func (s *Server) openCertificates(name string) (err error) {
	if s.certificates != nil {
		return nil
	}
	if s.certificates, err = pki.Open(PKIDir(s.config.DataDir)); err != nil {
		return err
	}
	s.certificates.SetRefuse(func(kind pki.Kind, name, serial string) string {
		return s.cluster.View().CertificateProblem(string(kind), name, serial)
	})
	return nil
}

// authority is what handlers need of it; nil where there is none.
func (s *Server) authority() api.Authority {
	if s.certificates == nil {
		return nil
	}
	return s.certificates
}

// newPeers makes this controller's dealings with the others.
func (s *Server) newPeers(name string, version string) (*peerlink.Peers, error) {
	options := peerlink.Options{Network: s.config.network(), Version: version, Level: uint32(state.Newest), Logger: s.log,
		LevelInForce:   func() uint32 { return uint32(s.cluster.View().Level()) },
		Leads:          s.cluster.Confirm,
		Admitted:       func() error { return keepName(s.config.DataDir, name) },
		HistoryThrough: func() uint64 { return uint64(s.history.Through()) },
		Problem:        func() string { return certificateProblem(s.certificates, name, time.Now()) }}
	if s.wire != nil {
		var err error
		var client *tls.Config
		if _, client, err = s.certificates.PeerConfigs(name); err != nil {
			return nil, err
		}
		options.TLS, options.Over = client, s.wire.Over()
	}
	return peerlink.New(s.cluster.peer, options), nil
}
