package roots

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/gleaner-hpc/gleaner/noded/userpath"
	"github.com/gleaner-hpc/gleaner/oci/ref"
)

const firstID = 2_100_000_000

// program is goci, built once.
var program string

func TestMain(m *testing.M) {
	if os.Getuid() != 0 {
		fmt.Println("skipping: user namespaces with many ids need root")
		return
	}
	if os.Getenv(pullHere) != "" {
		pullForTest()
		return
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	program = filepath.Join(dir, "goci")
	build := exec.Command("go", "build", "-o", program, "../../cmd/goci")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		log.Fatalf("build goci: %v\n%s", err, out)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newCache(t testing.TB) *Cache {
	c := &Cache{Dir: filepath.Join(t.TempDir(), "cache"), Program: program, Limit: 1 << 30, FirstID: firstID, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	t.Cleanup(func() { c.settling.Wait() })
	return c
}

// person is a user who has an empty home.
func person(t testing.TB, uid uint32) *User {
	home := t.TempDir()
	for dir := home; dir != os.TempDir(); dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
	must(t, os.Chown(home, int(uid), int(uid)))
	return &User{Identity: userpath.Identity{UID: uid, GID: uid}, Name: fmt.Sprint("u", uid), Home: home}
}

// site is a registry on this machine.
type site struct {
	*httptest.Server
	host string
	// between, if it is set, answers requests that it says it has answered.
	between func(w http.ResponseWriter, r *http.Request) bool
	blobs   int // that were asked for
}

func newSite(t testing.TB, options ...registry.Option) *site {
	s := &site{}
	inner := registry.New(append(options, registry.Logger(log.New(io.Discard, "", 0)))...)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			s.blobs++
		}
		if s.between == nil || !s.between(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Server.Close)
	s.host = strings.TrimPrefix(s.URL, "http://")
	return s
}

// entry is a file of a layer; a name that ends in "/" is a directory.
type entry struct {
	name, content, link string
	kind                byte
	mode                int64
	uid                 int
	attributes          map[string]string
}

func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, Uid: e.uid, Gid: e.uid, Typeflag: e.kind, Linkname: e.link, Size: int64(len(e.content)), Format: tar.FormatPAX}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
			if strings.HasSuffix(e.name, "/") {
				h.Typeflag = tar.TypeDir
			}
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		for name, value := range e.attributes {
			if h.PAXRecords == nil {
				h.PAXRecords = map[string]string{}
			}
			h.PAXRecords["SCHILY.xattr."+name] = value
		}
		must(t, w.WriteHeader(h))
		_, err := io.WriteString(w, e.content)
		must(t, err)
	}
	must(t, w.Close())
	return out.Bytes()
}

func layerOf(t testing.TB, content []byte) v1.Layer {
	t.Helper()
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	must(t, err)
	return layer
}

// imageOf is an image for this machine.
func imageOf(t testing.TB, layers ...v1.Layer) v1.Image {
	t.Helper()
	image, err := mutate.AppendLayers(empty.Image, layers...)
	must(t, err)
	config, err := image.ConfigFile()
	must(t, err)
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Env = []string{"PATH=/bin", "LANG=C"}
	image, err = mutate.ConfigFile(image, config)
	must(t, err)
	return image
}

// push puts an image into the registry, and answers it pinned.
func (s *site) push(t testing.TB, path string, image v1.Image) ref.Ref {
	t.Helper()
	at, err := name.ParseReference(s.host + "/" + path)
	must(t, err)
	must(t, remote.Write(at, image))
	digest, err := image.Digest()
	must(t, err)
	r, err := ref.Parse(s.host+"/"+path+"@"+digest.String(), "")
	must(t, err)
	return r
}

func pullRoot(t testing.TB, c *Cache, u *User, r ref.Ref) (*Root, error) {
	t.Helper()
	root, err := c.Root(context.Background(), u, r, func(text string) { t.Log(text) })
	if root != nil {
		t.Cleanup(root.Close)
	}
	return root, err
}

// clean makes sure that nothing is left of what failed.
func clean(t testing.TB, c *Cache) {
	t.Helper()
	for _, dir := range []string{unpackingDir, removedDir, layersDir} {
		entries, err := os.ReadDir(c.path(dir))
		if err == nil && len(entries) > 0 {
			t.Errorf("%s has %v", dir, entries)
		}
	}
}
