package roots

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/userpath"
	"github.com/gleaner-hpc/gleaner/oci/ref"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// slowBlob lets an image's layer come as soon as done is closed.
func slowBlob(reached chan<- bool, done <-chan bool) func(http.ResponseWriter, *http.Request) bool {
	var blobs atomic.Int32
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") && blobs.Add(1) > 1 { // after the configuration
			reached <- true
			<-done
		}
		return false
	}
}

// await waits for what has to come.
func await(t *testing.T, what <-chan bool) {
	t.Helper()
	select {
	case <-what:
	case <-time.After(prototest.Patience):
		t.Fatal("it does not come")
	}
}

// bearer makes a registry want tokens, each of which is good for some requests.
func bearer(s *site, good int) (issued *int) {
	var mu sync.Mutex
	left := map[string]int{}
	issued = new(int)
	s.between = func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/token" {
			*issued++
			token := "t" + strconv.Itoa(*issued)
			left[token] = good
			fmt.Fprintf(w, `{"token":%q,"expires_in":300}`, token)
			return true
		}
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if left[token] > 0 {
			left[token]--
			return false
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="lab"`, s.host))
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	return issued
}

// TestTokenExpires: a token that ends in mid-pull is fetched again, and a registry that gives
// none any more is named.
func TestTokenExpires(t *testing.T) {
	s, c, u := newSite(t), newCache(t), person(t, 1000)
	r := s.push(t, "lab/token:1", imageOf(t, layerOf(t, tarOf(t, entry{name: "a", content: "a"}))))
	issued := bearer(s, 1)
	if _, err := pullRoot(t, c, u, r); err != nil {
		t.Fatal(err)
	}
	if *issued < 3 { // of two processes, the first of which asks for two documents
		t.Errorf("%d tokens were issued", *issued)
	}
	bearer(s, 0)
	refused(t, newCache(t), u, r, "docker login")
}

// TestBusyLayer: a registry that has no time for a layer is asked again.
func TestBusyLayer(t *testing.T) {
	s, c, u := newSite(t), newCache(t), person(t, 1000)
	layer := layerOf(t, tarOf(t, entry{name: "a", content: "a"}))
	digest, err := layer.Digest()
	must(t, err)
	r := s.push(t, "lab/busy:2", imageOf(t, layer))
	refusals := 0
	s.between = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, digest.String()) && refusals == 0 {
			refusals++
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		}
		return false
	}
	if _, err := pullRoot(t, c, u, r); err != nil || refusals == 0 {
		t.Error(err, refusals)
	}
}

// pullHere, in the environment, has this program pull an image and nothing else: a
// supervisor that is killed.
const pullHere = "ROOTS_TEST_PULL"

func pullForTest() {
	words := strings.Split(os.Getenv(pullHere), " ")
	r, err := ref.ParsePinned(words[2])
	if err != nil {
		panic(err)
	}
	c := &Cache{Dir: words[0], Program: words[1], Limit: 1 << 30, FirstID: firstID, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	root, err := c.Root(context.Background(), &User{Identity: userpath.Identity{UID: 1000, GID: 1000}, Home: "/"}, r, func(string) {})
	fmt.Println(root, err)
}

// TestKilledWhileItUnpacks: with a supervisor that is killed its fetching and its unpacking
// end, nothing of it is taken for a layer, and the next job pulls.
func TestKilledWhileItUnpacks(t *testing.T) {
	s, c, u := newSite(t), newCache(t), person(t, 1000)
	r := s.push(t, "lab/killed:1", imageOf(t, layerOf(t, tarOf(t, entry{name: "a", content: strings.Repeat("a", 1<<20)}))))
	reached, done := make(chan bool, 8), make(chan bool)
	s.between = slowBlob(reached, done)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), pullHere+"="+strings.Join([]string{c.Dir, c.Program, r.String()}, " "))
	must(t, child.Start())
	await(t, reached)
	locked := func() int {
		n := 0
		dirs, _ := filepath.Glob(c.path(unpackingDir, "*"))
		for _, dir := range dirs {
			file, err := os.Open(dir)
			must(t, err)
			if flock(file, unix.LOCK_EX|unix.LOCK_NB) != nil {
				n++
			}
			file.Close()
		}
		return n
	}
	if locked() != 1 {
		t.Error("nothing is being unpacked")
	}
	must(t, child.Process.Kill())
	_ = child.Wait()
	for end := time.Now().Add(prototest.Patience); locked() > 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if locked() > 0 {
		t.Error("what a killed supervisor unpacked goes on")
	}
	close(done)
	s.between = nil
	root, err := pullRoot(t, c, u, r)
	must(t, err)
	content, err := os.ReadFile(filepath.Join(root.Layers[0], "a"))
	if err != nil || len(content) != 1<<20 {
		t.Errorf("%d bytes, %v", len(content), err)
	}
	c.sweep()
	if left, _ := filepath.Glob(c.path(unpackingDir, "*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// TestFullCache: what has no room is refused with what would help, leaves nothing, and comes
// when a job has ended.
func TestFullCache(t *testing.T) {
	s, c, u := newSite(t), newCache(t), person(t, 1000)
	c.Limit = 3 << 20
	image := func(name, letter string) ref.Ref {
		return s.push(t, name, imageOf(t, layerOf(t, tarOf(t, entry{name: "a", content: strings.Repeat(letter, 2<<20)}))))
	}
	first, err := pullRoot(t, c, u, image("lab/a:1", "a"))
	must(t, err)
	second := image("lab/b:1", "b")
	for range 2 {
		_, err := pullRoot(t, c, u, second)
		var fault *Error
		if !errors.As(err, &fault) || !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "try again later, or raise image_cache") {
			t.Errorf("a full cache: %v", err)
		}
		if left, _ := filepath.Glob(c.path(unpackingDir, "*")); len(left) > 0 {
			t.Errorf("%v is left", left)
		}
	}
	first.Close()
	if _, err := pullRoot(t, c, u, second); err != nil {
		t.Error(err)
	}
	large := s.push(t, "lab/c:1", imageOf(t, layerOf(t, tarOf(t, entry{name: "a", content: strings.Repeat("c", 4<<20)}))))
	if _, err := pullRoot(t, newCacheOf(t, 3<<20), u, large); err == nil || !strings.Contains(err.Error(), "the cache may have") {
		t.Errorf("more than there is: %v", err)
	}
}

func newCacheOf(t *testing.T, limit int64) *Cache {
	c := newCache(t)
	c.Limit = limit
	return c
}

// TestMadeWhileSwept: a directory for a layer that is being made is not taken for what
// somebody left.
func TestMadeWhileSwept(t *testing.T) {
	c := newCache(t)
	must(t, c.makeDirs())
	stop, swept := make(chan bool), make(chan bool)
	go func() {
		defer close(swept)
		for {
			select {
			case <-stop:
				return
			default:
				c.sweep()
			}
		}
	}()
	for range 500 {
		dir, _, _, err := c.reserve(strings.Repeat("a", 64), 1<<10)
		must(t, err)
		dir.Close()
	}
	close(stop)
	<-swept
}
