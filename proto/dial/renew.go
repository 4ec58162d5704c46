package dial

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// renewalFile, in the directory of a certificate, is locked by who renews it,
	// and holds why the last attempt failed.
	renewalFile = "renewal"
	// draftFile becomes cert.pem.
	draftFile = "cert.pem.new"
	// draftBytes are more than a certificate has: a disk without room for the new
	// one is found out before the authority issues it.
	draftBytes = 8 << 10
	// maxFailure bounds what is kept of a failure.
	maxFailure = 1 << 10
)

// RenewFrom is from when a certificate is to be renewed: two thirds of its life.
func RenewFrom(leaf *x509.Certificate) time.Time {
	return leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 3 * 2)
}

// Renewal is a certificate in a directory of "gctld cert" that is to be renewed.
type Renewal struct {
	// Request is what the authority is to sign: PKCS #10 in DER, by the key that
	// is there, which stays where it is.
	Request []byte
	dir     string
	pair    tls.Certificate
}

// Holder names the owner of the certificate, as KIND:NAME.
func (r *Renewal) Holder() string { return r.pair.Leaf.Subject.CommonName }

// Until is when the present certificate ends.
func (r *Renewal) Until() time.Time { return r.pair.Leaf.NotAfter }

// Renew renews the certificate in a directory if its time has come: ask has the
// authority sign a request. The key stays, so that whoever is killed midway leaves a
// certificate that goes with it. One process renews at a time; to the others
// nothing is due. After a failure that is answered again, and nobody is asked,
// until pause is over.
func Renew(dir string, now time.Time, pause time.Duration, ask func(request []byte) (der []byte, err error)) (renewed bool, err error) {
	renewal, err := Due(dir, now)
	if renewal == nil || err != nil {
		return false, err
	}
	record, err := lockRenewal(dir)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer record.Close()
	// The process that had the lock may just have renewed it.
	if renewal, err = Due(dir, now); renewal == nil || err != nil {
		return false, err
	}
	if former := lastFailure(record, now, pause); former != nil {
		return false, former
	}
	if err = renewal.renew(ask); err != nil {
		return false, errors.Join(err, keepFailure(record, now, err.Error()))
	}
	return true, keepFailure(record, now, "")
}

func (r *Renewal) renew(ask func(request []byte) (der []byte, err error)) error {
	draft, err := r.openDraft()
	if err != nil {
		return err
	}
	defer draft.Close()
	defer os.Remove(draft.Name()) // unless it is cert.pem by then
	der, err := ask(r.Request)
	if err != nil {
		return err
	}
	return r.install(der, draft)
}

// lockRenewal fails with EWOULDBLOCK while another process renews.
func lockRenewal(dir string) (*os.File, error) {
	record, err := os.OpenFile(filepath.Join(dir, renewalFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(record.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", record.Name(), err), record.Close())
	}
	return record, nil
}

// lastFailure is why an attempt failed that was less than pause ago.
func lastFailure(record *os.File, now time.Time, pause time.Duration) error {
	info, err := record.Stat()
	if err != nil || info.Size() == 0 || now.Sub(info.ModTime()).Abs() >= pause {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(record, maxFailure))
	if err != nil {
		return err
	}
	return errors.New(string(text))
}

// keepFailure keeps why an attempt failed, or with "" that it did not.
func keepFailure(record *os.File, now time.Time, why string) error {
	_, err := record.WriteAt([]byte(why[:min(len(why), maxFailure)]), 0)
	return errors.Join(record.Truncate(int64(min(len(why), maxFailure))), err, os.Chtimes(record.Name(), now, now))
}

// Due returns the renewal of a certificate whose time has come; nil when it is
// good for long, or is over: then nobody would take a request over it.
func Due(dir string, now time.Time) (*Renewal, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		return nil, fmt.Errorf("%w: cert.pem and key.pem of %s: %w", ErrTLSDir, dir, err)
	}
	if now.Before(RenewFrom(pair.Leaf)) || now.After(pair.Leaf.NotAfter) {
		return nil, nil
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pair.Leaf.Subject}, pair.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("ask for a newer certificate than that in %s: %w", dir, err)
	}
	return &Renewal{request, dir, pair}, nil
}

// openDraft makes the file of the new certificate, and makes sure of its room. It
// keeps who owns the present one, and who may read it.
func (r *Renewal) openDraft() (*os.File, error) {
	before, err := os.Stat(filepath.Join(r.dir, "cert.pem"))
	if err != nil {
		return nil, err
	}
	path := filepath.Join(r.dir, draftFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // of a process that was killed
		return nil, err
	}
	draft, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = draft.Write(make([]byte, draftBytes))
	if err = errors.Join(err, draft.Chmod(before.Mode().Perm()), keepOwner(draft, before), draft.Sync()); err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", path, err), draft.Close(), os.Remove(path))
	}
	return draft, nil
}

// install puts the new certificate, in DER, in the place of the former one, whole
// or not at all. It must be of the same holder, key and authority.
func (r *Renewal) install(der []byte, draft *os.File) error {
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := r.check(der, text); err != nil {
		return err
	}
	if err := draft.Truncate(0); err != nil {
		return err
	}
	_, err := draft.WriteAt(text, 0)
	if err = errors.Join(err, draft.Sync()); err != nil {
		return fmt.Errorf("write %s: %w", draft.Name(), err)
	}
	return os.Rename(draft.Name(), filepath.Join(r.dir, "cert.pem"))
}

// check refuses a certificate, in DER and as PEM, that must not replace the
// former one.
func (r *Renewal) check(der, text []byte) error {
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return fmt.Errorf("the new certificate: %w", err)
	}
	authority, err := os.ReadFile(filepath.Join(r.dir, "ca.pem"))
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	key, err := os.ReadFile(filepath.Join(r.dir, "key.pem"))
	if err != nil {
		return err
	}
	if _, err := tls.X509KeyPair(text, key); err != nil {
		return fmt.Errorf("the new certificate: %w", err)
	}
	if err := checkOwn(leaf, pool); err != nil || leaf.Subject.CommonName != r.pair.Leaf.Subject.CommonName {
		return errors.Join(fmt.Errorf("the new certificate, of %q, is not of the same holder and authority as that in %s", leaf.Subject.CommonName, r.dir), err)
	}
	return nil
}
