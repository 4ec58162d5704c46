package scenario

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func init() { commands["web"] = runWeb }

// runWeb is `web DIR`: a web server of the files in DIR, which it also takes by PUT. It sets
// WEB, its address. Below /broken each connection breaks after a third of a file; below /busy
// the first requests for a file get 429; below /stall nothing comes; below /held a PUT waits
// until DIR/go is there.
func runWeb(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: web DIR")
	}
	w := &web{dir: ts.MkAbs(args[0]), asked: map[string]int{}, over: make(chan struct{})}
	server := httptest.NewServer(w)
	ts.Defer(func() { close(w.over); server.Close() })
	ts.Setenv("WEB", server.URL)
}

type web struct {
	dir  string
	over chan struct{}

	mu    sync.Mutex
	asked map[string]int
}

// ServeHTTP implements http.Handler.
func (s *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, name := "", strings.TrimPrefix(r.URL.Path, "/")
	if first, rest, is := strings.Cut(name, "/"); is {
		kind, name = first, rest
	}
	path := filepath.Join(s.dir, filepath.Base(name))
	s.mu.Lock()
	s.asked[r.URL.Path]++
	times := s.asked[r.URL.Path]
	s.mu.Unlock()
	switch {
	case kind == "stall":
		select {
		case <-s.over:
		case <-r.Context().Done():
		}
	case kind == "busy" && times < 3:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "later", http.StatusTooManyRequests)
	case r.Method == http.MethodPut:
		for kind == "held" && !s.there("go") {
			select {
			case <-s.over:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
		s.take(w, r, path)
	case kind == "broken":
		w.Header().Set("ETag", `"one"`)
		info, err := os.Stat(path)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		http.ServeFile(&breaking{ResponseWriter: w, left: info.Size()/3 + 1}, r, path)
	default:
		http.ServeFile(w, r, path)
	}
}

func (s *web) there(name string) bool {
	_, err := os.Stat(filepath.Join(s.dir, name))
	return err == nil
}

func (s *web) take(w http.ResponseWriter, r *http.Request, path string) {
	data, err := io.ReadAll(r.Body)
	if err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		http.Error(w, fmt.Sprint(err), http.StatusInternalServerError)
	}
}

// breaking breaks a connection after some bytes.
type breaking struct {
	http.ResponseWriter
	left int64
}

// Write implements http.ResponseWriter.
func (b *breaking) Write(data []byte) (int, error) {
	n, err := b.ResponseWriter.Write(data[:min(int64(len(data)), b.left)])
	if b.left -= int64(n); b.left == 0 {
		panic(http.ErrAbortHandler)
	}
	return n, err
}
