package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	headerPatience = time.Minute     // for the beginning of an answer
	silence        = time.Minute     // between two pieces of it
	mostWait       = 5 * time.Minute // of what a server asks us to wait
	mostRedirects  = 10
)

// newClient speaks HTTP. Go's knows no other schemes than http and https, so no redirect
// leads to a file.
func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = headerPatience
	transport.DisableCompression = true // the sum is that of the bytes that are sent
	return &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		switch {
		case len(via) >= mostRedirects:
			return final("more than %d redirects", mostRedirects)
		case via[0].URL.Scheme == "https" && r.URL.Scheme != "https":
			return final("the server leads away from https, to %s", nameOf(r.URL.String()))
		}
		return nil
	}}
}

// webFile is a file of a web server.
type webFile struct {
	url    *url.URL
	client *http.Client
	mark   string // that tells whether it has changed; "" = the server has none
	length int64
	says   string
	begun  func() // called when it is known which file it is; nil = nobody cares
}

func newWebFile(u *url.URL) *webFile {
	from := *u
	from.Fragment = ""
	return &webFile{url: &from, client: newClient(), length: -1}
}

func (f *webFile) name() string { return nameOf(f.url.String()) }
func (f *webFile) size() int64  { return f.length }
func (f *webFile) sum() string  { return f.says }

// read implements remote.
func (f *webFile) read(ctx context.Context, into io.Writer, at int64) (bool, error) {
	if at > 0 && at == f.length && f.mark != "" {
		return true, nil // it was killed before it had its name
	}
	if at > 0 && f.mark == "" {
		return false, errAgain // nobody knows whether it is the same file
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url.String(), nil)
	if err != nil {
		return false, final("%w", err)
	}
	if at > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", at))
		request.Header.Set("If-Range", f.mark)
	}
	answer, err := f.client.Do(request)
	if err != nil {
		return false, withoutURL(err)
	}
	defer answer.Body.Close()
	if err := f.accept(answer, at); err != nil {
		return false, err
	}
	timer := time.AfterFunc(silence, func() { cancel(fmt.Errorf("the server has sent nothing for %v", silence)) })
	defer timer.Stop()
	n, err := io.Copy(into, &counted{Reader: answer.Body, tell: func(int64) { timer.Reset(silence) }})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return err == nil && (f.length < 0 || at+n == f.length), err
}

// accept judges an answer to a request for what follows a place.
func (f *webFile) accept(answer *http.Response, at int64) error {
	switch {
	case at > 0 && answer.StatusCode == http.StatusPartialContent:
		var from, to int64
		if _, err := fmt.Sscanf(answer.Header.Get("Content-Range"), "bytes %d-%d/", &from, &to); err != nil || from != at {
			return errAgain
		}
		return nil
	case at > 0 && (answer.StatusCode == http.StatusOK || answer.StatusCode == http.StatusRequestedRangeNotSatisfiable):
		f.mark = ""
		return errAgain
	case answer.StatusCode != http.StatusOK:
		return statusError(answer)
	}
	f.length, f.mark, f.says = answer.ContentLength, mark(answer.Header), digestOf(answer.Header)
	if f.length < 0 && answer.ProtoMajor < 2 && len(answer.TransferEncoding) == 0 && f.says == "" {
		return final("the server does not say how long it is, so nobody would see that its end is missing: use another server")
	}
	if f.begun != nil {
		f.begun()
	}
	return nil
}

// mark is what tells whether a file has changed: a strong entity tag, or when it changed.
func mark(h http.Header) string {
	if h.Get("Accept-Ranges") == "none" {
		return ""
	}
	if tag := h.Get("ETag"); strings.HasPrefix(tag, `"`) {
		return tag
	}
	return h.Get("Last-Modified")
}

// digestOf is the SHA-256 of the whole that a server tells (RFC 9530), in hex.
func digestOf(h http.Header) string {
	for _, field := range strings.Split(h.Get("Repr-Digest"), ",") {
		text, is := strings.CutPrefix(strings.TrimSpace(field), "sha-256=:")
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(text, ":")); is && err == nil && len(sum) == sha256.Size {
			return hex.EncodeToString(sum)
		}
	}
	return ""
}

// statusError says what a status means, and whether to try again.
func statusError(answer *http.Response) error {
	err := fmt.Errorf("the server says %s", answer.Status)
	switch code := answer.StatusCode; {
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		seconds, parseErr := strconv.ParseUint(answer.Header.Get("Retry-After"), 10, 16)
		if parseErr != nil {
			return err
		}
		return &waitError{err, min(time.Duration(seconds)*time.Second, mostWait)}
	case code == http.StatusRequestTimeout || code >= http.StatusInternalServerError && code != http.StatusNotImplemented && code != http.StatusInsufficientStorage:
		return err
	}
	return &finalError{err}
}

// withoutURL is an error without the URL, which may have a secret.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// upload sends a file to a web server with PUT. A server takes it whole or not at all, so
// it is sent again whole.
func (c *copier) upload(ctx context.Context, to *url.URL, file *os.File, size int64) error {
	sum := sha256.New()
	if n, err := io.Copy(sum, io.LimitReader(file, size)); err != nil || n != size {
		return fmt.Errorf("read %s: %d of %d bytes: %w", file.Name(), n, size, errors.Join(err))
	}
	client := newClient()
	pause := newPause()
	for begun := time.Now(); ; {
		err := c.put(ctx, client, to, file, size, sum.Sum(nil))
		var never *finalError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &never):
			return never.error
		case ctx.Err() != nil:
			return errors.New("it was interrupted")
		case time.Since(begun) > patience:
			return err
		}
		if err := rest(ctx, pause.NextBackOff(), err); err != nil {
			return err
		}
	}
}

func (c *copier) put(ctx context.Context, client *http.Client, to *url.URL, file *os.File, size int64, sum []byte) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(silence, func() { cancel(fmt.Errorf("the server has taken nothing for %v", silence)) })
	defer timer.Stop()
	name := nameOf(to.String())
	body := &counted{Reader: io.NewSectionReader(file, 0, size), tell: func(done int64) {
		timer.Reset(silence)
		c.progress(name, done, size)
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, to.String(), body)
	if err != nil {
		return final("%w", err)
	}
	request.ContentLength = size
	if size == 0 {
		request.Body = http.NoBody
	}
	request.Header.Set("Content-Type", "application/octet-stream")
	request.Header.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":")
	answer, err := client.Do(request)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return withoutURL(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return statusError(answer)
	}
	return nil
}
