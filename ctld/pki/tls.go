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
// over, another controller's, or of an earlier authority. One that was issued
// elsewhere is taken as it is.
func (a *Authority) own(controller string) (tls.Certificate, error) {
	if a.key == nil {
		return a.issued(controller)
	}
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

// issued is the certificate of a controller that joined.
func (a *Authority) issued(controller string) (tls.Certificate, error) {
	_, pair, _, err := readBundle(a.dir)
	if err != nil {
		return pair, fmt.Errorf("%w: %w", ErrAuthority, err)
	}
	if _, name, _ := Holder(pair.Leaf); name != controller {
		return pair, fmt.Errorf("%w: the certificate in %s is that of controller %s, and this one is called %s: start it with --name %s, or get one for %s with gctld cert --controller %s on %s", ErrAuthority, a.dir, name, controller, name, controller, controller, a.origin())
	}
	if now := time.Now(); now.After(pair.Leaf.NotAfter) || now.Before(pair.Leaf.NotBefore) {
		return pair, fmt.Errorf("%w: the certificate in %s is good from %s to %s: look at the clock, or %s", ErrAuthority, a.dir, pair.Leaf.NotBefore.Format(time.DateTime), pair.Leaf.NotAfter.Format(time.DateTime), a.Renewal(controller))
	}
	return pair, nil
}

// Expires is when this controller's certificate ends, and whether that is so
// soon that it has to be renewed, as Renewal says.
func (a *Authority) Expires(now time.Time) (at time.Time, soon bool) {
	var pair tls.Certificate
	var err error
	if a.key != nil {
		pair, err = tls.LoadX509KeyPair(a.path("controller.pem"), a.path("controller-key.pem"))
	} else {
		_, pair, _, err = readBundle(a.dir)
	}
	if err != nil {
		return time.Time{}, false // of what is not there yet, or is refused elsewhere
	}
	return pair.Leaf.NotAfter, pair.Leaf.NotAfter.Sub(now) < renewBefore
}

// Renewal says how this controller gets a newer certificate.
func (a *Authority) Renewal(controller string) string {
	if a.key != nil {
		return "restart gctld here, which makes a new one"
	}
	return fmt.Sprintf("run gctld cert --controller %s --out DIR on %s, copy DIR here and restart gctld with --certificates DIR", controller, a.origin())
}
