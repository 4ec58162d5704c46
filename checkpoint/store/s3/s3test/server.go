// Package s3test is a server that speaks S3, in memory, for tests: it takes HTTP on a port of
// this machine, and checks who signed a request, with what and when.
package s3test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rclone/gofakes3"
	"github.com/rclone/gofakes3/s3mem"
	"github.com/rclone/gofakes3/signature"
)

// Key and Secret are the credentials that a server knows.
const (
	Key    = "GLEANERTESTKEY"
	Secret = "not-a-secret-of-anybody"
	Bucket = "images"
)

// Server is one of them.
type Server struct {
	Endpoint string // http://127.0.0.1:PORT
	Backend  *s3mem.Backend
	// Before is asked before a request is served: false = it was answered, or broken off.
	Before atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]

	server *http.Server
	fake   http.Handler
	skew   atomic.Int64
}

// Start starts a server with an empty bucket.
func Start() (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{Endpoint: "http://" + listener.Addr().String(), Backend: s3mem.New()}
	if err := s.Backend.CreateBucket(context.Background(), Bucket); err != nil {
		return nil, err
	}
	s.serve(listener)
	return s, nil
}

func (s *Server) serve(listener net.Listener) {
	s.fake = gofakes3.New(s.Backend, gofakes3.WithTimeSkewLimit(15*time.Minute), gofakes3.WithTimeSource(clock{s})).Server()
	s.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before := s.Before.Load(); before == nil || (*before)(w, r) {
			s.Handle(w, r)
		}
	})}
	go func() { _ = s.server.Serve(listener) }()
}

// Stop ends the server, and breaks what is under way.
func (s *Server) Stop() { _ = s.server.Close() }

// Restart serves the same objects at the same address again.
func (s *Server) Restart() error {
	listener, err := net.Listen("tcp", s.Endpoint[len("http://"):])
	if err != nil {
		return err
	}
	s.serve(listener)
	return nil
}

// Handle serves a request, if its signature is good.
func (s *Server) Handle(w http.ResponseWriter, r *http.Request) {
	verdict := signature.V4SignVerifyWithLookup(r, func(key string) (string, bool) { return Secret, key == Key })
	if verdict != signature.ErrNone {
		answer := signature.GetAPIError(verdict)
		w.WriteHeader(answer.HTTPStatusCode)
		_, _ = w.Write(signature.EncodeAPIErrorToResponse(answer))
		return
	}
	// An empty delimiter is none. The library takes it for one, so it is taken out, and
	// only after the signature, of which it is a part, was checked.
	if query := r.URL.Query(); query.Has("delimiter") && query.Get("delimiter") == "" {
		query.Del("delimiter")
		r.URL.RawQuery = query.Encode()
	}
	s.fake.ServeHTTP(w, r)
}

// Skew sets the server's clock ahead.
func (s *Server) Skew(by time.Duration) { s.skew.Store(int64(by)) }

// clock is that of the server.
type clock struct{ of *Server }

// Now implements gofakes3.TimeSource.
func (c clock) Now() time.Time { return time.Now().Add(time.Duration(c.of.skew.Load())) }

// Since implements gofakes3.TimeSource.
func (c clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Uploads counts the objects that were begun, and neither completed nor given up.
func (s *Server) Uploads() int {
	answer := httptest.NewRecorder()
	s.fake.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/"+Bucket+"?uploads", nil))
	return strings.Count(answer.Body.String(), "<UploadId>")
}
