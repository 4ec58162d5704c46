package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/dial"
)

// ServerConfig is for listening to clients and nodes: they must show a
// certificate of this authority.
func (a *Authority) ServerConfig(controller string) (*tls.Config, error) {
	certificate, err := a.own(controller)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{certificate},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    a.pool(),
		// gRPC needs it; a client that offers something else is refused.
		NextProtos: []string{"h2"},
	}, nil
}

// PeerConfigs are for the connections between controllers, which accept
// controllers' certificates only.
func (a *Authority) PeerConfigs(controller string) (server, client *tls.Config, err error) {
	certificate, err := a.own(controller)
	if err != nil {
		return nil, nil, err
	}
	server = &tls.Config{
		MinVersion:       tls.VersionTLS13,
		Certificates:     []tls.Certificate{certificate},
		ClientAuth:       tls.RequireAndVerifyClientCert,
		ClientCAs:        a.pool(),
		VerifyConnection: requireController,
	}
	client = &tls.Config{
		MinVersion:       tls.VersionTLS13,
		Certificates:     []tls.Certificate{certificate},
		RootCAs:          a.pool(),
		ServerName:       dial.ServerName,
		VerifyConnection: requireController,
	}
	return server, client, nil
}

func requireController(state tls.ConnectionState) error {
	if len(state.PeerCertificates) > 0 {
		if kind, _, ok := Holder(state.PeerCertificates[0]); ok && kind == Controller {
			return nil
		}
	}
	return errors.New("the other end is not a controller")
}

func (a *Authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// own is this controller's certificate, made anew when it is missing, soon
// over, another controller's, or of an earlier authority.
func (a *Authority) own(controller string) (tls.Certificate, error) {
	certificate, key := a.path("controller.pem"), a.path("controller-key.pem")
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err == nil && a.usable(pair.Leaf, controller) {
		return pair, nil
	}
	certificateText, keyText, err := a.Issue(Controller, controller)
	if err != nil {
		return tls.Certificate{}, err
	}
	if err := errors.Join(writeFile(key, keyText), writeFile(certificate, certificateText)); err != nil {
		return tls.Certificate{}, fmt.Errorf("keep this controller's certificate: %w", err)
	}
	return tls.X509KeyPair(certificateText, keyText)
}

func (a *Authority) usable(leaf *x509.Certificate, controller string) bool {
	kind, name, ok := Holder(leaf)
	return ok && kind == Controller && name == controller &&
		time.Until(leaf.NotAfter) > renewBefore && leaf.CheckSignatureFrom(a.certificate) == nil
}
