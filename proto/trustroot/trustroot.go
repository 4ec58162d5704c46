// Package trustroot reads what a trusted root of Sigstore (trusted_root.json) says of
// itself: which authorities, logs and clocks it lists, and when each is in force. It checks
// no signature, and asks nobody; package oci/sign/keyless does the former with the same
// text.
package trustroot

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// mediaType is that of the only version there is.
const mediaType = "application/vnd.dev.sigstore.trustedroot+json;version=0.1"

// ErrNoRoot is returned, wrapped, for a text that is no trusted root.
var ErrNoRoot = errors.New("it is no trusted root of Sigstore (trusted_root.json)")

// Root is what is known of one.
type Root struct {
	Authorities []Entry // that issue certificates
	Logs        []Entry // that prove that a signature was made, and mostly when
	Clocks      []Entry // timestamping authorities, which prove when
	CertLogs    []Entry // of certificates
}

// Entry is an authority or a log.
type Entry struct {
	Name  string
	From  time.Time
	Until time.Time // zero = nothing says so
}

// validity is a span of time as the file has it.
type validity struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

type authority struct {
	URI       string `json:"uri"`
	CertChain struct {
		Certificates []struct {
			RawBytes []byte `json:"rawBytes"`
		} `json:"certificates"`
	} `json:"certChain"`
	ValidFor validity `json:"validFor"`
}

type keyOfLog struct {
	BaseURL   string `json:"baseUrl"`
	PublicKey struct {
		RawBytes []byte   `json:"rawBytes"`
		ValidFor validity `json:"validFor"`
	} `json:"publicKey"`
}

// Parse reads one.
func Parse(text []byte) (*Root, error) {
	var file struct {
		MediaType              string      `json:"mediaType"`
		Tlogs                  []keyOfLog  `json:"tlogs"`
		Ctlogs                 []keyOfLog  `json:"ctlogs"`
		CertificateAuthorities []authority `json:"certificateAuthorities"`
		TimestampAuthorities   []authority `json:"timestampAuthorities"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoRoot, err)
	}
	if file.MediaType != mediaType {
		return nil, fmt.Errorf("%w: its mediaType is %.80q, and not %s", ErrNoRoot, file.MediaType, mediaType)
	}
	r := &Root{}
	for _, part := range []struct {
		from []authority
		to   *[]Entry
	}{{file.CertificateAuthorities, &r.Authorities}, {file.TimestampAuthorities, &r.Clocks}} {
		for i := range part.from {
			entry, err := part.from[i].entry()
			if err != nil {
				return nil, fmt.Errorf("%w: authority %.80q: %w", ErrNoRoot, part.from[i].URI, err)
			}
			*part.to = append(*part.to, entry)
		}
	}
	for _, part := range []struct {
		from []keyOfLog
		to   *[]Entry
	}{{file.Tlogs, &r.Logs}, {file.Ctlogs, &r.CertLogs}} {
		for i := range part.from {
			l := &part.from[i]
			if len(l.PublicKey.RawBytes) == 0 {
				return nil, fmt.Errorf("%w: log %.80q has no key", ErrNoRoot, l.BaseURL)
			}
			*part.to = append(*part.to, Entry{l.BaseURL, l.PublicKey.ValidFor.Start, l.PublicKey.ValidFor.End})
		}
	}
	switch {
	case len(r.Authorities) == 0:
		return nil, fmt.Errorf("%w: it lists no certificate authority", ErrNoRoot)
	case len(r.Logs)+len(r.Clocks) == 0:
		return nil, fmt.Errorf("%w: it lists no transparency log and no timestamping authority, so nothing proves when a signature was made", ErrNoRoot)
	}
	return r, nil
}

// entry ends when its own validity does, or that of its first certificate to end.
func (a *authority) entry() (Entry, error) {
	e := Entry{Name: a.URI, From: a.ValidFor.Start, Until: a.ValidFor.End}
	if len(a.CertChain.Certificates) == 0 {
		return e, errors.New("it has no certificate")
	}
	for _, raw := range a.CertChain.Certificates {
		c, err := x509.ParseCertificate(raw.RawBytes)
		if err != nil {
			return e, err
		}
		e.Name = cmp.Or(e.Name, c.Subject.CommonName)
		if e.From.Before(c.NotBefore) {
			e.From = c.NotBefore
		}
		if e.Until.IsZero() || c.NotAfter.Before(e.Until) {
			e.Until = c.NotAfter
		}
	}
	return e, nil
}

func (e *Entry) inForce(now time.Time) bool {
	return !now.Before(e.From) && (e.Until.IsZero() || now.Before(e.Until))
}

// need is a kind of entries of which a new signature needs one.
type need struct {
	what string
	of   []Entry
}

func (r *Root) needs() []need {
	needs := []need{{"certificate authority", r.Authorities}}
	if len(r.Logs) > 0 {
		needs = append(needs, need{"transparency log", r.Logs})
	} else {
		needs = append(needs, need{"timestamping authority", r.Clocks})
	}
	if len(r.CertLogs) > 0 {
		needs = append(needs, need{"certificate log", r.CertLogs})
	}
	return needs
}

// Lacking says of what nothing is in force; "" = a signature that is made now can be
// checked.
func (r *Root) Lacking(now time.Time) string {
	for _, n := range r.needs() {
		found := false
		for i := range n.of {
			found = found || n.of[i].inForce(now)
		}
		if !found {
			return n.what
		}
	}
	return ""
}

// Ends is when a signature that is made then can no longer be checked, as far as the root
// says; zero = it does not.
func (r *Root) Ends() time.Time {
	var ends time.Time
	for _, n := range r.needs() {
		if last := lastEnd(n.of); !last.IsZero() && (ends.IsZero() || last.Before(ends)) {
			ends = last
		}
	}
	return ends
}

// lastEnd is when the last of them ends; zero = one has no end.
func lastEnd(of []Entry) (last time.Time) {
	for i := range of {
		if of[i].Until.IsZero() {
			return time.Time{}
		}
		if of[i].Until.After(last) {
			last = of[i].Until
		}
	}
	return last
}

// Newest is when the youngest of its authorities and logs began: a root that was fetched
// later has at least that one.
func (r *Root) Newest() (newest time.Time) {
	for _, of := range [][]Entry{r.Authorities, r.Logs, r.Clocks, r.CertLogs} {
		for i := range of {
			if of[i].From.After(newest) {
				newest = of[i].From
			}
		}
	}
	return newest
}

// Compact is the text without blanks between its parts, so that a root is the same however
// it was written.
func Compact(text []byte) ([]byte, error) {
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoRoot, err)
	}
	return out.Bytes(), nil
}
