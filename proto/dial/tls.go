package dial

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/gleaner-hpc/gleaner/proto/munge"
)

// ServerName is in every controller's certificate, and in no other that the
// cluster's authority issues. Clients check for it instead of a host name:
// controllers move and are reached by many names, and what matters is that the
// other end is a controller of this cluster.
const ServerName = "gctld"

// ErrTLSDir is returned when a target needs TLS and no usable certificates
// were given.
var ErrTLSDir = errors.New("no certificate to show the controller")

// credentialsIn are what is in a directory; "" = in that of TLSDir, and munged says who asks
// if there is no certificate. The daemons name their directory: none of them may pass for
// the user as whom it runs.
func credentialsIn(dir string) (*transportCredentials, error) {
	c, err := &transportCredentials{}, error(nil)
	if dir == "" {
		if dir, err = TLSDir(); err != nil {
			return nil, err
		}
		if c.munge, err = Munged(dir); err != nil {
			return nil, err
		}
	}
	c.tls, err = loadTLS(dir, c.munge == "")
	return c, err
}

// Munged is the socket of munged, if that speaks for who has no certificate in a directory;
// "" = it does not.
func Munged(dir string) (socket string, err error) {
	if _, err := os.Lstat(filepath.Join(dir, "cert.pem")); dir == "" || !errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return MungeSocket()
}

// loadTLS reads ca.pem, and if a certificate is to be shown cert.pem and key.pem.
func loadTLS(dir string, show bool) (*tls.Config, error) {
	if dir == "" {
		return nil, fmt.Errorf("%w: set %s to the directory that \"gctld cert\" wrote, or use a unix socket", ErrTLSDir, EnvironmentTLSDir)
	}
	authority, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTLSDir, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%w: %s holds no certificate", ErrTLSDir, filepath.Join(dir, "ca.pem"))
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: ServerName, RootCAs: pool}
	if !show {
		return config, nil
	}
	certificate, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		return nil, fmt.Errorf("%w: cert.pem and key.pem of %s: %w", ErrTLSDir, dir, err)
	}
	if err := checkOwn(certificate.Leaf, pool); err != nil {
		return nil, fmt.Errorf("%w: %s %w: get a new one with \"gctld cert\" on the controller's host", ErrTLSDir, filepath.Join(dir, "cert.pem"), err)
	}
	// The certificate is renewed while the connections continue: each new one
	// shows what lies there then.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if newer, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")); err == nil {
			return &newer, nil
		}
		return &certificate, nil
	}
	return config, nil
}

// checkOwn refuses a certificate that the controllers would refuse: what they
// say of it comes back as a broken connection, which tells nobody why.
func checkOwn(leaf *x509.Certificate, authority *x509.CertPool) error {
	now := time.Now()
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("was good until %s", leaf.NotAfter.Format(time.DateTime))
	}
	if now.Before(leaf.NotBefore) {
		return fmt.Errorf("is good from %s, and the clock says %s", leaf.NotBefore.Format(time.DateTime), now.Format(time.DateTime))
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: authority, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return errors.New("was not issued by the authority in ca.pem in the same directory")
	}
	return nil
}

// transportCredentials picks by the kind of connection: a unix socket as it
// is, anything else with TLS. One list of targets may hold both.
type transportCredentials struct {
	tls   *tls.Config
	munge string // socket of munged, which says who asks; "" = a certificate does
}

func (c *transportCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if _, ok := conn.(*net.UnixConn); ok {
		return insecure.NewCredentials().ClientHandshake(ctx, authority, conn)
	}
	if c.tls == nil {
		return nil, nil, ErrTLSDir
	}
	secured, info, err := credentials.NewTLS(c.tls).ClientHandshake(ctx, authority, conn)
	if proof, ok := info.(credentials.TLSInfo); ok && err == nil && c.munge != "" {
		if err := munge.Show(ctx, secured, &proof.State, c.munge); err != nil {
			return nil, nil, errors.Join(err, secured.Close())
		}
	}
	return secured, info, err
}

func (c *transportCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("dial's credentials are for clients only")
}

func (c *transportCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "gleaner"}
}

func (c *transportCredentials) Clone() credentials.TransportCredentials {
	return &transportCredentials{tls: c.tls, munge: c.munge}
}

func (c *transportCredentials) OverrideServerName(string) error {
	return errors.New("the server name is fixed")
}
