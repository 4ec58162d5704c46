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
	if err := a.show(controller); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		GetCertificate: a.serverCertificate,
		ClientAuth:     tls.RequireAndVerifyClientCert,
		ClientCAs:      a.pool(),
		// gRPC needs it; a client that offers something else is refused.
		NextProtos: []string{"h2"},
	}, nil
}

// PeerConfigs are for the connections between controllers, which accept only
// controllers' certificates.
func (a *Authority) PeerConfigs(controller string) (server, client *tls.Config, err error) {
	if err := a.show(controller); err != nil {
		return nil, nil, err
	}
	server = &tls.Config{
		MinVersion:       tls.VersionTLS13,
		GetCertificate:   a.serverCertificate,
		ClientAuth:       tls.RequireAndVerifyClientCert,
		ClientCAs:        a.pool(),
		VerifyConnection: a.requireController,
	}
	client = &tls.Config{
		MinVersion:       tls.VersionTLS13,
		RootCAs:          a.pool(),
		ServerName:       dial.ServerName,
		VerifyConnection: a.requireController,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return a.current.Load(), nil
		},
	}
	return server, client, nil
}

// show loads this controller's certificate, which connections show from now on.
func (a *Authority) show(controller string) error {
	certificate, err := a.own(controller)
	if err != nil {
		return err
	}
	a.current.Store(&certificate)
	return nil
}

func (a *Authority) serverCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return a.current.Load(), nil
}

func (a *Authority) requireController(state tls.ConnectionState) error {
	if len(state.PeerCertificates) > 0 {
		if kind, name, ok := Holder(state.PeerCertificates[0]); ok && kind == Controller {
			if why := a.Refused(state.PeerCertificates[0]); why != "" {
				return fmt.Errorf("the certificate of controller %s is refused: %s", name, why)
			}
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

// own is this controller's certificate, renewed when it is missing, about to
// expire, another controller's, or of an earlier authority. One that was issued
// elsewhere is used as it is.
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
		time.Now().Before(dial.RenewFrom(leaf)) && leaf.CheckSignatureFrom(a.certificate) == nil
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
// soon that an administrator has to look why it was not renewed, as Renewal
// says: half of the time for renewals is over.
func (a *Authority) Expires(now time.Time) (at time.Time, soon bool) {
	var pair tls.Certificate
	var err error
	if a.key != nil {
		pair, err = tls.LoadX509KeyPair(a.path("controller.pem"), a.path("controller-key.pem"))
	} else {
		_, pair, _, err = readBundle(a.dir)
	}
	if err != nil {
		return time.Time{}, false // it does not exist yet, or is refused elsewhere
	}
	from := dial.RenewFrom(pair.Leaf)
	return pair.Leaf.NotAfter, now.After(from.Add(pair.Leaf.NotAfter.Sub(from) / 2))
}

// Ends is when the authority itself ends, and whether it is time to plan for
// that.
func (a *Authority) Ends(now time.Time) (at time.Time, soon bool) {
	return a.certificate.NotAfter, a.certificate.NotAfter.Sub(now) < authorityWarns
}

// Renew gets this controller a newer certificate when two thirds of the life of
// its own are over, and connections show it from then on. It is issued here, or
// by the controller that has the authority's key, to which ask carries the
// request.
func (a *Authority) Renew(controller string, now time.Time, ask func(request []byte) (der []byte, err error)) (renewed bool, err error) {
	present := a.current.Load()
	if present == nil || now.Before(dial.RenewFrom(present.Leaf)) {
		return false, nil
	}
	if a.key == nil {
		if renewed, err := dial.Renew(a.dir, now, 0, ask); !renewed {
			return false, err
		}
	}
	return true, a.show(controller)
}

// Renewal says how this controller gets a newer certificate if that does not
// happen by itself.
func (a *Authority) Renewal(controller string) string {
	if a.key != nil {
		return "it is renewed by itself, and was not: see the log of gctld, and restart it"
	}
	return fmt.Sprintf("it is renewed by itself while the controller with the authority's key runs, on %s; or run gctld cert --controller %s --out DIR there, copy DIR here and restart gctld with --certificates DIR", a.origin(), controller)
}
