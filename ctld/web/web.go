// Package web serves a controller's metrics over HTTP, for Prometheus.
//
// Contract: it only reads, and what it shows holds no name of a user or a job.
// It is off unless the controller is given an address; then it is plain HTTP
// on exactly that address, because that is what scrapes expect: who may reach
// it is the network's business. Whatever a client does costs little: few
// connections, few requests at once, every wait bounded.
package web

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
)

// Bounds. One Prometheus, or two, ask every few seconds.
const (
	maxConnections = 64
	maxScrapes     = 4
	scrapeLimit    = 10 * time.Second
	headerLimit    = 5 * time.Second
	writeLimit     = 30 * time.Second
	idleLimit      = 2 * time.Minute
	maxHeaderBytes = 16 << 10
)

// MetricsPath is where the metrics are.
const MetricsPath = "/metrics"

// Server serves until Close.
type Server struct {
	http     *http.Server
	listener net.Listener
	done     chan struct{}
}

// Listen opens the address, HOST:PORT, and serves what the registry gathers.
func Listen(address string, registry *prometheus.Registry, log *slog.Logger) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s for metrics: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+MetricsPath, promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes, Timeout: scrapeLimit, ErrorHandling: promhttp.ContinueOnError, ErrorLog: complaints{log},
	}))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "gctld: the metrics are at "+MetricsPath+"\n")
	})
	s := &Server{
		http: &http.Server{
			Handler:           http.MaxBytesHandler(mux, 0), // no request has a body
			ReadHeaderTimeout: headerLimit, ReadTimeout: scrapeLimit, WriteTimeout: writeLimit, IdleTimeout: idleLimit, MaxHeaderBytes: maxHeaderBytes,
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
		listener: listener, done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(netutil.LimitListener(listener, maxConnections)); err != http.ErrServerClosed {
			log.Error("metrics are not served any more: restart gctld to have them again", "error", err)
		}
	}()
	return s, nil
}

// Address is what it listens on.
func (s *Server) Address() net.Addr { return s.listener.Addr() }

// Close stops serving, without waiting for anybody who still reads.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.http.Shutdown(ctx) // closes the listener and what is idle
	err := s.http.Close()
	<-s.done
	return err
}

// complaints is the log of promhttp.
type complaints struct {
	log *slog.Logger
}

func (c complaints) Println(words ...any) {
	c.log.Error("metrics could not be gathered whole; report this as a fault of gctld", "error", fmt.Sprint(words...))
}
