package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint/store"
	"github.com/gleaner-hpc/gleaner/checkpoint/store/s3/s3test"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

func noise(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(data)
	return data
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func newTest(env map[string]string) *copier {
	return newCopier(func(name string) string { return env[name] })
}

func in(source, target string) spec.Staging { return spec.Staging{Source: source, Target: target} }

func (c *copier) mustCopy(t *testing.T, one spec.Staging) {
	t.Helper()
	if err := c.copy(context.Background(), one); err != nil {
		t.Fatalf("%+v: %v", one, err)
	}
}

func mustHave(t *testing.T, path string, want []byte) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%s: %d bytes where %d should be, %v", path, len(got), len(want), err)
	}
}

// short makes a test wait for milliseconds where others wait for minutes.
func short(t *testing.T) {
	oldPatience, oldPause := patience, firstPause
	patience, firstPause = 2*time.Second, 20*time.Millisecond
	t.Cleanup(func() { patience, firstPause = oldPatience, oldPause })
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestConnectionsThatBreak: what came is not asked for again, and what has changed is read
// from its beginning.
func TestConnectionsThatBreak(t *testing.T) {
	firstPause = 20 * time.Millisecond
	t.Cleanup(func() { firstPause = time.Second })
	data, other := noise(300_000), noise(250_000)
	var asked, sent atomic.Int64
	changed := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		body, tag := data, `"one"`
		if changed && asked.Load() > 1 {
			body, tag = other, `"two"`
		}
		w.Header().Set("ETag", tag)
		w = &cut{ResponseWriter: w, left: 120_000, sent: &sent}
		http.ServeContent(w, r, "f", time.Time{}, bytes.NewReader(body))
	}))
	defer server.Close()
	target := filepath.Join(t.TempDir(), "deep/down/f")
	newTest(nil).mustCopy(t, in(server.URL+"/f#sha256="+sumOf(data), target))
	mustHave(t, target, data)
	newTest(nil).mustCopy(t, in(server.URL+"/f#sha256="+sumOf(data), target)) // it is there
	if asked.Load() != 3 || sent.Load() != 300_000 {
		t.Errorf("%d requests sent %d bytes", asked.Load(), sent.Load())
	}
	asked.Store(0)
	write(t, target, append(noise(299_999), 1)) // another file of its size
	newTest(nil).mustCopy(t, in(server.URL+"/f#sha256="+sumOf(data), target))
	mustHave(t, target, data)
	asked.Store(0)
	changed = true
	newTest(nil).mustCopy(t, in(server.URL+"/f", target))
	mustHave(t, target, other)
}

// TestKilledInTheMiddle: a run goes on with what an earlier one left that was killed, if the
// source is still the same, and a mark that somebody else wrote does no harm.
func TestKilledInTheMiddle(t *testing.T) {
	data := noise(300_000)
	var sent atomic.Int64
	tag := `"one"`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag)
		http.ServeContent(&cut{ResponseWriter: w, left: 1 << 30, sent: &sent}, r, "f", time.Time{}, bytes.NewReader(data))
	}))
	defer server.Close()
	url := server.URL + "/f"
	mark := func(o origin) []byte {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	same := origin{URL: url, Mark: tag, Length: 300_000, Boot: bootID()}
	other := func(change func(*origin)) []byte {
		o := same
		change(&o)
		return mark(o)
	}
	for name, c := range map[string]struct {
		mark []byte
		part []byte
		sent int64
	}{
		"a part":          {mark(same), data[:200_000], 100_000},
		"all of it":       {mark(same), data, 0},
		"none of it":      {mark(same), nil, 300_000},
		"too much":        {mark(same), noise(300_001), 300_000},
		"another version": {other(func(o *origin) { o.Mark = `"zero"` }), noise(200_000), -1},
		"another boot":    {other(func(o *origin) { o.Boot = "another" }), data[:200_000], 300_000},
		"another file":    {other(func(o *origin) { o.URL += "2" }), noise(200_000), 300_000},
		"no mark":         {nil, noise(200_000), 300_000},
		"no JSON":         {[]byte("{"), noise(200_000), 300_000},
		"a large mark":    {bytes.Repeat([]byte("{"), mostMark+1), noise(200_000), 300_000},
	} {
		dir := t.TempDir()
		if c.part != nil {
			write(t, dir+"/f"+partSuffix, c.part)
		}
		if c.mark != nil {
			write(t, dir+"/f"+markSuffix, c.mark)
		}
		sent.Store(0)
		newTest(nil).mustCopy(t, in(url, dir+"/f"))
		mustHave(t, dir+"/f", data)
		if c.sent >= 0 && sent.Load() != c.sent { // one that has changed begins twice
			t.Errorf("%s: %d bytes were sent, and not %d", name, sent.Load(), c.sent)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("%s: %v, %v", name, left, err)
		}
	}
	dir := t.TempDir() // a part that is not of the source is found out by its sum
	write(t, dir+"/f"+partSuffix, make([]byte, 200_000))
	write(t, dir+"/f"+markSuffix, mark(same))
	if err := newTest(nil).copy(context.Background(), in(url+"#sha256="+sumOf(data), dir+"/f")); err == nil || !strings.Contains(err.Error(), "its SHA-256 is wrong") {
		t.Error(err)
	}
	newTest(nil).mustCopy(t, in(url+"#sha256="+sumOf(data), dir+"/f"))
	mustHave(t, dir+"/f", data)
}

type cut struct {
	http.ResponseWriter
	left int
	sent *atomic.Int64
}

func (c *cut) Write(data []byte) (int, error) {
	n, err := c.ResponseWriter.Write(data[:min(len(data), c.left)])
	c.sent.Add(int64(n))
	if c.left -= n; c.left == 0 {
		c.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// TestServersInBadWeather: each has its error, and nothing of the file is left.
func TestServersInBadWeather(t *testing.T) {
	short(t)
	data := noise(1000)
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(data) }))
	defer plain.Close()
	tries := 0
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		why    string // "" = it comes
	}{
		"not there": {http.NotFound, "404 Not Found"},
		"forbidden": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusForbidden) }, "403 Forbidden"},
		"to a file": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		}, "unsupported protocol scheme"},
		"in a ring": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, "more than 10 redirects"},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain.URL, http.StatusFound) }, ""},
		"busy once": {func(w http.ResponseWriter, _ *http.Request) {
			if tries++; tries == 1 {
				w.Header().Set("Retry-After", "1")
				http.Error(w, "", http.StatusTooManyRequests)
				return
			}
			_, _ = w.Write(data)
		}, ""},
		"wrong sum": {func(w http.ResponseWriter, _ *http.Request) {
			sum := sha256.Sum256([]byte("other"))
			w.Header().Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
			_, _ = w.Write(data)
		}, "its SHA-256 is wrong"},
		"no length": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			fmt.Fprintf(conn, "HTTP/1.0 200 OK\r\n\r\nhalf")
			conn.Close()
		}, "does not say how long it is"},
		"always cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(http.StatusOK)
		}, "nothing has come for"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.answer)
			defer server.Close()
			dir := t.TempDir()
			err := newTest(nil).copy(context.Background(), in(server.URL+"/f?secret=x", dir+"/f"))
			left, _ := os.ReadDir(dir)
			switch {
			case c.why == "" && err == nil:
				mustHave(t, dir+"/f", data)
			case c.why == "" || err == nil || !strings.Contains(err.Error(), c.why) || strings.Contains(err.Error(), "secret"):
				t.Errorf("%v, and not %q", err, c.why)
			case len(left) > 0:
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestNoRoom: a full disk says what helps.
func TestNoRoom(t *testing.T) {
	file, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(noise(1000)) }))
	defer server.Close()
	request, _ := http.NewRequest(http.MethodGet, server.URL, nil)
	err = newTest(nil).download(context.Background(), newWebFile(request.URL), file, "")
	if err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("%v", err)
	}
}

// TestPut: results go to a web server whole, also when it is busy first.
func TestPut(t *testing.T) {
	short(t)
	data, busy, got := noise(100_000), 1, map[string][]byte{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if busy--; busy == 0 {
			http.Error(w, "", http.StatusServiceUnavailable)
			return
		}
		body, _ := io.ReadAll(r.Body)
		sum := sha256.Sum256(body)
		if r.Method != http.MethodPut || r.Header.Get("Repr-Digest") != "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":" {
			t.Errorf("%s %s with %s", r.Method, r.URL, r.Header.Get("Repr-Digest"))
		}
		got[r.URL.Path] = body
	}))
	defer server.Close()
	dir := t.TempDir()
	write(t, dir+"/r/a b", data)
	write(t, dir+"/r/sub/empty", nil)
	c := newTest(nil)
	c.mustCopy(t, spec.Staging{Source: dir + "/r", Target: server.URL + "/up", Out: true})
	c.mustCopy(t, spec.Staging{Source: dir + "/r/a b", Target: server.URL + "/one", Out: true})
	c.mustCopy(t, spec.Staging{Source: dir + "/r/a b", Target: server.URL + "/in/", Out: true})
	for path, want := range map[string][]byte{"/up/a b": data, "/up/sub/empty": {}, "/one": data, "/in/a b": data} {
		if body, is := got[path]; !is || !bytes.Equal(body, want) {
			t.Errorf("%s: %d bytes, %t", path, len(body), is)
		}
	}
	if err := os.Symlink("/etc/passwd", dir+"/r/link"); err != nil {
		t.Fatal(err)
	}
	if err := c.copy(context.Background(), spec.Staging{Source: dir + "/r", Target: server.URL + "/up", Out: true}); err == nil || !strings.Contains(err.Error(), "is no file") {
		t.Errorf("a link: %v", err)
	}
}

// TestBucket: files and directories go to a bucket and come back, over a server that breaks
// off and is restarted; hostile keys are refused.
func TestBucket(t *testing.T) {
	firstPause = 20 * time.Millisecond
	t.Cleanup(func() { firstPause = time.Second })
	server, err := s3test.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	env := map[string]string{"AWS_ENDPOINT_URL": server.Endpoint, "AWS_ACCESS_KEY_ID": s3test.Key, "AWS_SECRET_ACCESS_KEY": s3test.Secret}
	// The S3 library reads the environment of the process.
	for name, value := range env {
		t.Setenv(name, value)
	}
	c := newTest(env)
	dir, large := t.TempDir(), noise(store.PieceBytes+100_000)
	write(t, dir+"/r/large", large)
	write(t, dir+"/r/sub/small", []byte("x"))
	write(t, dir+"/r/empty", nil)
	var broken atomic.Int64
	breaks := func(w http.ResponseWriter, r *http.Request) bool {
		if broken.Add(1)%4 != 0 {
			return true
		}
		panic(http.ErrAbortHandler)
	}
	server.Before.Store(&breaks)
	at := "s3://" + s3test.Bucket
	c.mustCopy(t, spec.Staging{Source: dir + "/r", Target: at + "/runs/1", Out: true})
	c.mustCopy(t, in(at+"/runs/1/", dir+"/back"))
	for name, want := range map[string][]byte{"large": large, "sub/small": []byte("x"), "empty": {}} {
		mustHave(t, dir+"/back/"+name, want)
	}
	c.mustCopy(t, in(at+"/runs/1/large#sha256="+sumOf(large), dir+"/back2/"))
	mustHave(t, dir+"/back2/large", large)
	server.Before.Store(nil)

	for source, why := range map[string]string{
		at + "/none": "not exist", at + "/none/": "not exist", "s3://another-one/x": "see that bucket another-one exists",
		at + "/runs/1/sub/small#sha256=" + sumOf(nil): "its SHA-256 is wrong",
	} {
		if err := c.copy(context.Background(), in(source, dir+"/bad")); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, and not %q", source, err, why)
		}
	}
	c.mustCopy(t, spec.Staging{Source: dir + "/r/empty", Target: at + "/evil/x/../../../escaped", Out: true})
	if err := c.copy(context.Background(), in(at+"/evil/", dir+"/evil")); err != nil {
		if !strings.Contains(err.Error(), "no file can have") && !strings.Contains(err.Error(), "not exist") {
			t.Errorf("hostile key: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "../escaped")); err == nil {
		t.Error("a key led out of the target")
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	if err := newTest(map[string]string{"HOME": dir}).copy(context.Background(), in(at+"/x", dir+"/bad")); err == nil || !strings.Contains(err.Error(), "set AWS_ACCESS_KEY_ID") {
		t.Errorf("no credentials: %v", err)
	}
}

// TestPaths: a directory that the job sees is copied as gcp does.
func TestPaths(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/home/set/a", noise(1000))
	c := newTest(nil)
	c.mustCopy(t, in(dir+"/home/set", dir+"/tmp/data/set"))
	mustHave(t, dir+"/tmp/data/set/a", noise(1000))
	if err := c.copy(context.Background(), in(dir+"/home/none", dir+"/tmp/x")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
}

// TestFromTheSubmittingHost: a file has its name once it is whole; what is there from before
// is not taken for it.
func TestFromTheSubmittingHost(t *testing.T) {
	dir := t.TempDir()
	c := newTest(map[string]string{"GLEANER_STEP_SOCKET": dir + "/step.sock", "SLURM_JOB_ID": "12"})
	write(t, dir+"/in/f", []byte("older"))
	write(t, dir+"/in/f"+spec.HereSuffix, []byte("of a copy before"))
	done := make(chan error, 1)
	go func() {
		done <- c.copy(context.Background(), in("submit://host/home/a/f", dir+"/in/"))
	}()
	for begun := time.Now(); ; {
		text, err := os.ReadFile(filepath.Join(dir, "staging.json"))
		if err == nil && strings.Contains(string(text), "waits for /home/a/f of host: type there: gcp /home/a/f 12:"+dir+"/in/f.here") {
			break
		}
		if time.Since(begun) > prototest.Patience {
			t.Fatalf("it says %s, %v", text, err)
		}
		time.Sleep(time.Millisecond)
	}
	mustHave(t, dir+"/in/f", []byte("older"))
	write(t, dir+"/coming", []byte("newer"))
	if err := os.Rename(dir+"/coming", dir+"/in/f"+spec.HereSuffix); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	mustHave(t, dir+"/in/f", []byte("newer"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.copy(ctx, in("submit://host/home/a/f", dir+"/in/")); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Error(err)
	}
}

// TestResultsWaitToBeFetched: whoever has fetched them says so.
func TestResultsWaitToBeFetched(t *testing.T) {
	dir := t.TempDir()
	c := newCopier(func(name string) string {
		return map[string]string{"GLEANER_STEP_SOCKET": dir + "/steps", "SLURM_JOB_ID": "7"}[name]
	})
	one := spec.Staging{Source: dir + "/results/", Target: "submit://login/home/ann/results", Out: true}
	if err := c.copy(t.Context(), one); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("results that there are not: %v", err)
	}
	if err := os.Mkdir(dir+"/results", 0o755); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.copy(t.Context(), one) }()
	said := dir + "/" + step.StagingFile
	prototest.Eventually(t, "it is said what to type", func() bool {
		text, _ := os.ReadFile(said)
		return strings.Contains(string(text), step.AwaitsFetch+one.Source+": type on login: gcp -r 7:"+dir+"/results/ /home/ann/results")
	})
	write(t, dir+"/"+step.FetchedFile(dir+"/other"), nil)
	select {
	case err := <-done:
		t.Fatalf("it is over though only another was fetched: %v", err)
	case <-time.After(2 * lookAgain):
	}
	write(t, dir+"/"+step.FetchedFile(dir+"/results"), nil)
	if err := prototest.Receive(t, "the end", done); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := c.copy(ctx, spec.Staging{Source: said, Target: "submit://login/home/ann/s", Out: true}); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Fatalf("interrupted: %v", err)
	}
}
