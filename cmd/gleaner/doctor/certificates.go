package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/dial"
	"github.com/gleaner-hpc/gleaner/proto/finding"
	"github.com/gleaner-hpc/gleaner/proto/munge"
	"github.com/gleaner-hpc/gleaner/proto/tomlfile"
)

// maxCertificate bounds what is read of a certificate's file.
const maxCertificate = 1 << 20

// bundleMeans is what a certificate that does not work means, by role.
var bundleMeans = map[string]string{
	finding.Node:       "the node cannot speak to controllers on other hosts",
	finding.Controller: "other hosts cannot speak to this controller",
	userRole:           "no command reaches controllers on other hosts",
}

// checkBundle looks at what "gctld cert" wrote for a node, a user, or a
// controller that joins.
func checkBundle(dir, role, name string) []finding.Finding {
	check, means := "certificate in "+dir, bundleMeans[role]
	fix := "on the first controller's host: gctld cert --user NAME --out ./NAME; copy that folder to " + dir
	switch role {
	case finding.Node:
		fix = fmt.Sprintf("on the first controller's host: gctld cert --node %s --out ./%s; copy that folder to %s", name, name, dir)
	case finding.Controller:
		fix = fmt.Sprintf("on the first controller's host: gctld cert --controller %s --out ./%s; copy that folder here and restart gctld with --certificates ./%s", name, name, name)
	}
	authority, err := readAuthority(filepath.Join(dir, "ca.pem"))
	if err != nil {
		return []finding.Finding{certificateTrouble(check, err, means, fix)}
	}
	leaf, err := readPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		return []finding.Finding{certificateTrouble(check, err, means, fix)}
	}
	found := []finding.Finding{judgeLeaf(check, leaf, authority, role, name, means, fix)}
	if open := openToOthers(filepath.Join(dir, "key.pem")); open != "" {
		found = append(found, finding.Bad(check, open, "who reads it can pass for "+leaf.Subject.CommonName,
			"chmod 600 "+filepath.Join(dir, "key.pem")+"; if somebody may have read it, get a new one: "+fix))
	}
	return found
}

// checkOwn looks at what proves to controllers on other hosts who a user is: a certificate,
// or munged of this host where there is none.
func checkOwn(ctx context.Context, dir string) []finding.Finding {
	socket, err := dial.Munged(dir)
	if err != nil || socket == "" {
		return checkBundle(dir, userRole, "")
	}
	means := bundleMeans[userRole]
	if _, err := readAuthority(filepath.Join(dir, "ca.pem")); err != nil {
		return []finding.Finding{certificateTrouble("certificate in "+dir, err, means, "copy ca.pem of a folder that gctld cert wrote to "+dir)}
	}
	if err := munge.Try(ctx, socket); err != nil {
		return []finding.Finding{finding.Bad("munge", err.Error(), means, "systemctl status munge; or get a certificate, on the first controller's host: gctld cert --user NAME --out ./NAME; copy that folder to "+dir)}
	}
	return []finding.Finding{finding.Good("munge", "munged answers at "+socket+", and speaks for users without a certificate in "+dir)}
}

// judgeLeaf looks at the holder's own certificate.
func judgeLeaf(check string, leaf, authority *x509.Certificate, role, name, means, fix string) finding.Finding {
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	kind, holder, _ := strings.Cut(leaf.Subject.CommonName, ":")
	if bad := judgeTime(check, leaf, means, fix); bad != nil && bad.Status == finding.Failed {
		return *bad
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	switch {
	case err != nil:
		return finding.Bad(check, "cert.pem was not issued by the authority in ca.pem in the same directory", means, fix)
	case role != userRole && (kind != role || holder != name):
		return finding.Bad(check, fmt.Sprintf("it is that of %s, and this is %s %s", leaf.Subject.CommonName, role, name), "the controllers refuse this "+role, fix)
	case role == userRole && kind == finding.Node:
		return finding.Doubtful(check, "it is that of "+leaf.Subject.CommonName, "a node's certificate cannot submit jobs", fix)
	}
	if bad := judgeTime(check, leaf, means, fix); bad != nil {
		return *bad
	}
	return finding.Good(check, fmt.Sprintf("of %s, good for %d days more", leaf.Subject.CommonName, daysLeft(leaf)))
}

// judgeTime returns what is wrong with a certificate's time, or nil.
func judgeTime(check string, c *x509.Certificate, means, fix string) *finding.Finding {
	now := time.Now()
	var bad finding.Finding
	switch {
	case now.After(c.NotAfter):
		bad = finding.Bad(check, fmt.Sprintf("that of %s was good until %s", c.Subject.CommonName, c.NotAfter.Format(time.DateTime)), means, fix)
	case now.Before(c.NotBefore):
		bad = finding.Bad(check, fmt.Sprintf("that of %s is good from %s, and the clock says %s", c.Subject.CommonName, c.NotBefore.Format(time.DateTime), now.Format(time.DateTime)),
			means, "set the clock: timedatectl set-ntp true")
	case c.NotAfter.Sub(now) < soonFor(c):
		bad = finding.Doubtful(check, fmt.Sprintf("that of %s is good for %d days more", c.Subject.CommonName, daysLeft(c)), "from then on: "+means, fix)
	default:
		return nil
	}
	return &bad
}

// soonFor is how long before a certificate's end there is a warning. For one
// that renews itself it is half of the time that is left for that; for the
// authority, with which all others end, it is years.
func soonFor(c *x509.Certificate) time.Duration {
	if c.IsCA {
		return authorityWarns
	}
	return c.NotAfter.Sub(dial.RenewFrom(c)) / 2
}

const authorityWarns = 2 * 365 * 24 * time.Hour

func daysLeft(c *x509.Certificate) int { return int(time.Until(c.NotAfter) / (24 * time.Hour)) }

// checkAuthority looks at the cluster's own authority on a controller's host,
// or at the certificate of one that joined, which has no authority's key. The
// controller renews its own certificate when it is time, so that only its
// damage counts.
func checkAuthority(dir, name string) []finding.Finding {
	check := "certificates in " + dir
	means := bundleMeans[finding.Controller] + ", and no certificate can be issued"
	fix := "put back " + dir + " from a copy of the data directory"
	if _, err := os.Stat(filepath.Join(dir, "ca.pem")); errors.Is(err, fs.ErrNotExist) {
		return []finding.Finding{finding.Good(check, "none yet: gctld makes them when it is to listen on a network, and gctld cert when it is asked")}
	}
	if _, err := os.Stat(filepath.Join(dir, "cert.pem")); err == nil {
		if _, err := os.Stat(filepath.Join(dir, "ca-key.pem")); errors.Is(err, fs.ErrNotExist) {
			return checkBundle(dir, finding.Controller, name)
		}
	}
	authority, err := readAuthority(filepath.Join(dir, "ca.pem"))
	if err != nil {
		return []finding.Finding{certificateTrouble(check, err, means, fix)}
	}
	var found []finding.Finding
	if bad := judgeTime(check, authority, means, "remove ca.pem and ca-key.pem in "+dir+", and issue all certificates again: gctld cert"); bad != nil {
		found = append(found, *bad)
	}
	keys, _ := filepath.Glob(filepath.Join(dir, "*-key.pem"))
	if len(keys) == 0 {
		found = append(found, finding.Bad(check, "ca.pem is there and ca-key.pem is not", "no certificate can be issued", fix))
	}
	for _, key := range keys {
		_, err := readPair(strings.TrimSuffix(key, "-key.pem")+".pem", key)
		if err != nil {
			found = append(found, certificateTrouble(check, err, means, fix))
		}
		if open := openToOthers(key); open != "" {
			found = append(found, finding.Bad(check, open, "who reads it can pass for a controller, and issue certificates for anybody",
				"chmod 600 "+key+"; if somebody may have read it, make a new authority and reissue all certificates"))
		}
	}
	if len(found) == 0 {
		return []finding.Finding{finding.Good(check, fmt.Sprintf("the authority is good for %d days more, its key fits and is root's alone", daysLeft(authority)))}
	}
	return found
}

// certificateTrouble is a file that cannot be used, or only not by the caller.
func certificateTrouble(check string, err error, means, fix string) finding.Finding {
	if errors.Is(err, fs.ErrPermission) {
		return finding.Unseen(check, fmt.Sprintf("only its holder can look: %v", err))
	}
	return finding.Bad(check, err.Error(), means, fix)
}

func readAuthority(path string) (*x509.Certificate, error) {
	text, err := tomlfile.Read(path, maxCertificate)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	authority, err := x509.ParseCertificate(block.Bytes)
	if err != nil || !authority.IsCA {
		return nil, fmt.Errorf("%s holds no authority's certificate: %w", path, err)
	}
	return authority, nil
}

// readPair reads a certificate and makes sure that the key is its own.
func readPair(certificate, key string) (*x509.Certificate, error) {
	for _, path := range []string{certificate, key} {
		if _, err := tomlfile.Read(path, maxCertificate); err != nil {
			return nil, err
		}
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", certificate, filepath.Base(key), err)
	}
	return pair.Leaf, nil
}

// openToOthers says who else can read a key's file, or "".
func openToOthers(path string) string {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return ""
	}
	return fmt.Sprintf("%s has mode %04o: others may read or change it", path, info.Mode().Perm())
}
