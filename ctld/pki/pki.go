// Package pki is the cluster's own certificate authority.
//
// Contract: Open makes the authority at the first start and loads it
// afterwards; keys are readable by their owner only. A controller that joined a
// cluster does not have the authority's key but a certificate that was issued
// to it elsewhere: it can do everything except issue. Every certificate names
// its holder in its common name, as KIND:NAME: a controller, a node, a login host or a user.
// Controllers' certificates alone carry dial.ServerName, and nodes' and users'
// cannot be used by a server, so none can stand in for a controller. Nothing
// outside this authority is trusted.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/dial"
)

// Kind is what the holder of a certificate is.
type Kind string

// Kinds of holders.
const (
	Controller Kind = "controller"
	Node       Kind = "node"
	Host       Kind = "host" // a login host, which vouches for its users
	User       Kind = "user"
)

const (
	day           = 24 * time.Hour
	authorityLife = 20 * 365 * day
	// authorityWarns is how long before the authority's end a warning begins:
	// all certificates have to be issued again then.
	authorityWarns = 2 * 365 * day
	// clockSkew lets a machine whose clock is a little behind use a
	// certificate made a moment ago.
	clockSkew = 10 * time.Minute
)

// lives say for how long certificates are good. They are renewed when two
// thirds of that are over. Nodes are many, on machines of others, so theirs are
// short-lived.
var lives = map[Kind]time.Duration{Controller: 365 * day, Node: 90 * day, Host: 90 * day, User: 365 * day}

// Errors of this package.
var (
	// ErrName is returned when a name cannot be used in a certificate.
	ErrName = errors.New("bad name for a certificate")
	// ErrAuthority is returned when the authority's files are incomplete or
	// not readable.
	ErrAuthority = errors.New("certificate authority")
	// ErrNoKey is returned when a certificate is requested on a host without
	// the authority's key.
	ErrNoKey = errors.New("the key of the certificate authority is not on this host")
)

// Authority is the cluster's authority, with its key or without.
type Authority struct {
	dir         string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey // nil on a controller that joined
	pem         []byte
	// current is this controller's own certificate, which changes when it is
	// renewed.
	current atomic.Pointer[tls.Certificate]
	refuses atomic.Pointer[func(Kind, string, string) string]
}

// Open loads the authority in dir, or makes one there.
func Open(dir string) (*Authority, error) {
	if err := errors.Join(os.MkdirAll(dir, 0o700), giveDirToOwner(dir)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAuthority, err)
	}
	a := &Authority{dir: dir}
	unlock, err := a.lock()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAuthority, err)
	}
	defer unlock()
	_, certificateErr := os.Stat(a.path("ca.pem"))
	_, keyErr := os.Stat(a.path("ca-key.pem"))
	// The key is written first: a certificate alone means a lost key, a key
	// alone a start that was interrupted.
	if errors.Is(certificateErr, os.ErrNotExist) {
		if err := a.create(); err != nil {
			return nil, fmt.Errorf("%w: make it in %s: %w", ErrAuthority, dir, err)
		}
	} else if errors.Is(keyErr, os.ErrNotExist) {
		if exists(a.path(bundleCertificate)) {
			return a, a.loadIssued()
		}
		return nil, fmt.Errorf("%w: %s is there and its key %s is not: put the key back, or remove both and reissue all certificates", ErrAuthority, a.path("ca.pem"), a.path("ca-key.pem"))
	}
	if err := a.load(); err != nil {
		return nil, fmt.Errorf("%w: load from %s: %w", ErrAuthority, dir, err)
	}
	return a, nil
}

// lock keeps two programs from making an authority at the same time.
func (a *Authority) lock() (unlock func(), err error) {
	file, err := os.OpenFile(a.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(giveToOwner(file), unix.Flock(int(file.Fd()), unix.LOCK_EX)); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return func() { _ = file.Close() }, nil
}

func (a *Authority) path(name string) string { return filepath.Join(a.dir, name) }

func (a *Authority) create() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template, err := newTemplate("authority", authorityLife)
	if err != nil {
		return err
	}
	template.Subject.CommonName = "Gleaner cluster authority"
	template.IsCA = true
	template.MaxPathLenZero = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	keyText, err := encodeKey(key)
	if err != nil {
		return err
	}
	if err := writeFile(a.path("ca-key.pem"), keyText); err != nil {
		return err
	}
	return writeFile(a.path("ca.pem"), encodeCertificate(der))
}

func (a *Authority) load() error {
	pair, err := tls.LoadX509KeyPair(a.path("ca.pem"), a.path("ca-key.pem"))
	if err != nil {
		return fmt.Errorf("ca.pem and ca-key.pem: %w: put back both from a copy of the data directory", err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return errNotAuthority
	}
	a.key = key
	return a.use(pair.Leaf)
}

var errNotAuthority = errors.New("ca.pem is not an authority made by gctld: put back ca.pem and ca-key.pem from a copy of the data directory")

// use makes a certificate the authority's.
func (a *Authority) use(certificate *x509.Certificate) error {
	switch now := time.Now(); {
	case !certificate.IsCA:
		return errNotAuthority
	case certificate.CheckSignatureFrom(certificate) != nil:
		return errors.New("ca.pem is damaged: put it back from a copy of the data directory, or from the directory of any node")
	case now.After(certificate.NotAfter):
		return fmt.Errorf("ca.pem was good until %s: look at the clock, or remove ca.pem and ca-key.pem and reissue all certificates", certificate.NotAfter.Format(time.DateTime))
	case now.Before(certificate.NotBefore):
		return fmt.Errorf("ca.pem is good from %s: look at the clock", certificate.NotBefore.Format(time.DateTime))
	}
	a.certificate = certificate
	a.pem = encodeCertificate(certificate.Raw)
	return nil
}

// Issue makes a certificate and its key, both as PEM.
func (a *Authority) Issue(kind Kind, name string) (certificate, key []byte, err error) {
	if err := checkName(name); err != nil {
		return nil, nil, err
	}
	if a.key == nil {
		return nil, nil, fmt.Errorf("%w: run this on %s", ErrNoKey, a.origin())
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := a.sign(kind, name, private.Public())
	if err != nil {
		return nil, nil, err
	}
	key, err = encodeKey(private)
	return encodeCertificate(der), key, err
}

// Sign issues a certificate for the key of a request (PKCS #10 in DER), whose
// other fields are ignored: the caller knows who the holder is.
func (a *Authority) Sign(request []byte, kind Kind, name string) (der []byte, err error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if a.key == nil {
		return nil, fmt.Errorf("%w: it is on %s", ErrNoKey, a.origin())
	}
	asked, err := x509.ParseCertificateRequest(request)
	if err == nil {
		err = asked.CheckSignature()
	}
	var key *ecdsa.PublicKey
	if err == nil {
		key, _ = asked.PublicKey.(*ecdsa.PublicKey)
	}
	if err != nil || key == nil || key.Curve != elliptic.P256() {
		return nil, errors.Join(fmt.Errorf("%w: the request for a certificate is not one that gctld cert made", ErrName), err)
	}
	return a.sign(kind, name, key)
}

// sign stores what it issues where Issued finds it.
func (a *Authority) sign(kind Kind, name string, key any) ([]byte, error) {
	template, err := newTemplate(string(kind)+":"+name, lives[kind])
	if err != nil {
		return nil, err
	}
	if template.NotAfter.After(a.certificate.NotAfter) {
		template.NotAfter = a.certificate.NotAfter
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if kind == Controller {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		template.DNSNames = []string{dial.ServerName}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate of %s %s: %w", kind, name, err)
	}
	return der, a.keepIssued(template.SerialNumber, der)
}

// Holder splits a verified certificate's common name into kind and name.
func Holder(certificate *x509.Certificate) (Kind, string, bool) {
	kind, name, ok := strings.Cut(certificate.Subject.CommonName, ":")
	switch Kind(kind) {
	case Controller, Node, Host, User:
		return Kind(kind), name, ok && name != ""
	}
	return "", "", false
}

func newTemplate(commonName string, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(life),
		BasicConstraintsValid: true,
	}, nil
}

// checkName refuses what would read as another name: separators, spaces,
// control characters.
func checkName(name string) error {
	if name == "" || len(name) > 60 {
		return fmt.Errorf("%w %q: 1 to 60 characters", ErrName, name)
	}
	for _, r := range name {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", r) {
			return fmt.Errorf("%w %q: letters, digits, '-', '_' and '.' only", ErrName, name)
		}
	}
	return nil
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// writeFile replaces a file whole or not at all.
func writeFile(path string, content []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(content)
	err = errors.Join(err, giveToOwner(temporary), temporary.Sync(), temporary.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(temporary.Name(), path)
}

// giveToOwner gives what root writes to the owner of its directory: gctld need
// not run as root, and reads what root issues.
func giveToOwner(file *os.File) error {
	var dir unix.Stat_t
	if err := unix.Stat(filepath.Dir(file.Name()), &dir); err != nil || int(dir.Uid) == os.Geteuid() || os.Geteuid() != 0 {
		return err
	}
	return file.Chown(int(dir.Uid), int(dir.Gid))
}

// giveDirToOwner does the same with a directory.
func giveDirToOwner(path string) error {
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	return errors.Join(giveToOwner(dir), dir.Close())
}
