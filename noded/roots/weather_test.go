package roots

import (
	"archive/tar"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/oci/ref"
)

// refused makes sure that an image is refused for a reason that its user understands, and
// leaves nothing.
func refused(t *testing.T, c *Cache, u *User, r ref.Ref, want string) {
	t.Helper()
	_, err := pullRoot(t, c, u, r)
	var fault *Error
	if !errors.As(err, &fault) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	clean(t, c)
}

// TestHostileLayers: what no layer may have is refused by its name.
func TestHostileLayers(t *testing.T) {
	s, u := newSite(t), person(t, 1000)
	for _, c := range []struct {
		name    string
		entries []entry
		want    string
	}{
		{"device", []entry{{name: "x", kind: tar.TypeBlock}}, "a device file, /x"},
		{"out", []entry{{name: "../../etc/evil", content: "x"}}, "a path that leads out of it"},
		{"link", []entry{{name: "up", kind: tar.TypeSymlink, link: "/"}, {name: "hard", kind: tar.TypeLink, link: "../../../../etc/passwd"}}, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused(t, newCache(t), u, s.push(t, "evil/"+c.name+":1", imageOf(t, layerOf(t, tarOf(t, c.entries...)))), c.want)
		})
	}
}

// TestLinksStayInside: a link that leads to the host's files leads to the layer's own.
func TestLinksStayInside(t *testing.T) {
	s, c, u := newSite(t), newCache(t), person(t, 1000)
	outside := t.TempDir()
	layer := layerOf(t, tarOf(t, entry{name: "door", kind: tar.TypeSymlink, link: outside}, entry{name: "door/evil", content: "x"}, entry{name: "dev/null", kind: tar.TypeChar}, entry{name: "up", kind: tar.TypeSymlink, link: "../../../../../.."}, entry{name: "up/tmp/evil", content: "x"}))
	root, err := pullRoot(t, c, u, s.push(t, "evil/links:1", imageOf(t, layer)))
	must(t, err)
	entries, err := os.ReadDir(outside)
	must(t, err)
	if len(entries) > 0 {
		t.Errorf("%v was written outside", entries)
	}
	for _, path := range []string{filepath.Join(outside, "evil"), "tmp/evil"} {
		if _, err := os.Lstat(filepath.Join(root.Layers[0], path)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(root.Layers[0], "dev/null")); err == nil {
		t.Error("a device was made")
	}
}

// TestBrokenImages: what is not what its digests say is refused, and so is what is for
// other machines, or too large.
func TestBrokenImages(t *testing.T) {
	s, u := newSite(t), person(t, 1000)
	good := imageOf(t, layerOf(t, tarOf(t, entry{name: "a", content: strings.Repeat("a", 100_000)})))
	r := s.push(t, "lab/good:1", good)
	layers, err := good.Layers()
	must(t, err)
	digest, err := layers[0].Digest()
	must(t, err)
	answerBlob := func(f func(w http.ResponseWriter)) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			is := r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/blobs/"+digest.String())
			if is {
				f(w)
			}
			return is
		}
	}
	t.Run("other bytes", func(t *testing.T) {
		s.between = answerBlob(func(w http.ResponseWriter) {
			_, _ = w.Write(tarOf(t, entry{name: "evil", content: "x"}))
		})
		refused(t, newCache(t), u, r, "sha256:")
	})
	t.Run("truncated", func(t *testing.T) {
		s.between = answerBlob(func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100000")
			_, _ = w.Write([]byte{0x1f, 0x8b, 8, 0})
		})
		refused(t, newCache(t), u, r, "EOF")
	})
	t.Run("gone", func(t *testing.T) {
		s.between = answerBlob(func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) })
		refused(t, newCache(t), u, r, "was removed")
	})
	t.Run("no credentials", func(t *testing.T) {
		s.between = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("WWW-Authenticate", `Basic realm="lab"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		refused(t, newCache(t), u, r, "docker login")
	})
	s.between = nil
	t.Run("other document", func(t *testing.T) {
		other := r
		other.Digest = "sha256:" + strings.Repeat("0", 64)
		refused(t, newCache(t), u, other, "see whether the name is right")
	})
	t.Run("other architecture", func(t *testing.T) {
		config, err := good.ConfigFile()
		must(t, err)
		config = config.DeepCopy()
		config.Architecture = map[string]string{"amd64": "arm64"}[runtime.GOARCH]
		other, err := mutate.ConfigFile(good, config)
		must(t, err)
		refused(t, newCache(t), u, s.push(t, "lab/other:1", other), "not for linux/"+runtime.GOARCH)
	})
	t.Run("too large", func(t *testing.T) {
		c := newCache(t)
		c.Limit = 50_000
		refused(t, c, u, r, "image_cache")
	})
	t.Run("many layers", func(t *testing.T) {
		many := make([]v1.Layer, 128)
		for i := range many {
			many[i] = layers[0]
		}
		refused(t, newCache(t), u, s.push(t, "lab/many:1", imageOf(t, many...)), "128 layers")
	})
	t.Run("manifest bomb", func(t *testing.T) {
		s.between = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/manifests/") {
				return false
			}
			for range 1000 {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					break
				}
			}
			return true
		}
		refused(t, newCache(t), u, r, "larger than")
	})
	s.between = nil
}

// TestBusyRegistry: a registry that asks for patience gets it.
func TestBusyRegistry(t *testing.T) {
	s, c, u := newSite(t), newCache(t), person(t, 1000)
	r := s.push(t, "lab/busy:1", imageOf(t, layerOf(t, tarOf(t, entry{name: "a", content: "a"}))))
	asked := 0
	s.between = func(w http.ResponseWriter, r *http.Request) bool {
		if asked++; asked%2 == 1 && strings.Contains(r.URL.Path, "/manifests/") {
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		}
		return false
	}
	if _, err := pullRoot(t, c, u, r); err != nil {
		t.Error(err)
	}
}

// TestDigestIsNoPassword: who has never got a layer gets it only where its bytes come, and
// without the registry the one who had it still starts.
func TestDigestIsNoPassword(t *testing.T) {
	s, c, alice, bob := newSite(t), newCache(t), person(t, 1000), person(t, 1001)
	r := s.push(t, "lab/secret:1", imageOf(t, layerOf(t, tarOf(t, entry{name: "a", content: "secret"}))))
	_, err := pullRoot(t, c, alice, r)
	must(t, err)
	s.between = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusForbidden); return true }
	if _, err := pullRoot(t, c, alice, r); err != nil {
		t.Errorf("who had it does not get it: %v", err)
	}
	if _, err := pullRoot(t, c, bob, r); err == nil || !strings.Contains(err.Error(), "docker login") {
		t.Errorf("who had it not: %v", err)
	}
	s.between = nil
	if _, err := pullRoot(t, c, bob, r); err != nil {
		t.Error(err)
	}
}

// TestCacheKeepsToItsLimit: what nobody uses makes room, and what a job uses stays.
func TestCacheKeepsToItsLimit(t *testing.T) {
	s, c, u := newSite(t), newCache(t), person(t, 1000)
	c.Limit = 3 << 20
	var used *Root
	for i := range 4 {
		content := strings.Repeat(fmt.Sprint(i), 1<<20)
		root, err := pullRoot(t, c, u, s.push(t, fmt.Sprintf("lab/i%d:1", i), imageOf(t, layerOf(t, tarOf(t, entry{name: "a", content: content})))))
		must(t, err)
		if i == 0 {
			used = root
		} else {
			root.Close()
		}
	}
	layers, err := c.list()
	must(t, err)
	sum := int64(0)
	for _, l := range layers {
		sum += l.Bytes
	}
	if sum > c.Limit {
		t.Errorf("%d bytes of %d", sum, c.Limit)
	}
	if _, err := os.Stat(filepath.Join(used.Layers[0], "a")); err != nil {
		t.Errorf("a layer in use was removed: %v", err)
	}
}

// TestLockOfForkedChild: a child that was forked while a job used a layer, and has not
// executed its program yet, does not keep that layer.
func TestLockOfForkedChild(t *testing.T) {
	c := newCache(t)
	must(t, c.makeDirs())
	held, err := c.take(t.Context(), "aa", unix.LOCK_SH, false)
	must(t, err)
	copied, err := unix.Dup(int(held.Fd()))
	must(t, err)
	defer unix.Close(copied)
	held.Close()
	if held, err = c.take(t.Context(), "aa", unix.LOCK_EX, false); held == nil {
		t.Fatalf("the layer is still in use: %v", err)
	}
	held.Close()
}

// TestTwoAtOnce: two jobs that need one image pull it once.
func TestTwoAtOnce(t *testing.T) {
	s, c, u := newSite(t), newCache(t), person(t, 1000)
	r := s.push(t, "lab/two:1", imageOf(t, layerOf(t, tarOf(t, entry{name: "a", content: strings.Repeat("x", 4<<20)}))))
	before := s.blobs
	results := make(chan error)
	for range 2 {
		go func() { _, err := pullRoot(t, c, u, r); results <- err }()
	}
	must(t, errors.Join(<-results, <-results))
	if got := s.blobs - before; got > 3 { // a layer, and two configurations
		t.Errorf("%d blobs came", got)
	}
}

// TestLayersShareTheRoom: layers that come at once, each of which reserves more than it
// needs, all find room in the end.
func TestLayersShareTheRoom(t *testing.T) {
	s, c, u := newSite(t), newCache(t), person(t, 1000)
	c.Limit = 66 << 20
	var layers []v1.Layer
	for i := range 6 {
		layers = append(layers, layerOf(t, tarOf(t, entry{name: "a", content: strings.Repeat(fmt.Sprint(i), 5<<20)})))
	}
	if _, err := pullRoot(t, c, u, s.push(t, "lab/six:1", imageOf(t, layers...))); err != nil {
		t.Error(err)
	}
}

// TestSlowOther: whoever makes a registry slow does not keep others from a layer.
func TestSlowOther(t *testing.T) {
	s, slow, c := newSite(t), newSite(t), newCache(t)
	before := otherPatience
	otherPatience = 200 * time.Millisecond
	t.Cleanup(func() { otherPatience = before })
	image := imageOf(t, layerOf(t, tarOf(t, entry{name: "a", content: "public"})))
	layers, err := image.Layers()
	must(t, err)
	digest, err := layers[0].Digest()
	must(t, err)
	reached, done := make(chan bool, 1), make(chan bool)
	mine := slow.push(t, "evil/public:1", image)
	slow.between = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, digest.String()) {
			return false
		}
		reached <- true
		<-done
		return true
	}
	stopped := make(chan error, 1)
	go func() { _, err := pullRoot(t, c, person(t, 1001), mine); stopped <- err }()
	<-reached
	if _, err := pullRoot(t, c, person(t, 1000), s.push(t, "lab/public:1", image)); err != nil {
		t.Error(err)
	}
	close(done)
	if err := <-stopped; err == nil {
		t.Error("what never came is there")
	}
}

// TestLeftovers: what a process left that was killed while it unpacked is not taken for a
// layer, and is removed.
func TestLeftovers(t *testing.T) {
	s, c, u := newSite(t), newCache(t), person(t, 1000)
	must(t, c.makeDirs())
	hex := strings.Repeat("a", 64)
	dir, _, _, err := c.reserve(hex, 1<<20)
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(dir.Name(), rootName, "x"), 0o755))
	dir.Close() // as with its process
	must(t, os.MkdirAll(c.path(layersDir, strings.Repeat("b", 64), rootName), 0o755))
	_, err = pullRoot(t, c, u, s.push(t, "lab/after:1", imageOf(t, layerOf(t, tarOf(t, entry{name: "a"})))))
	must(t, err)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		entries, err := os.ReadDir(c.path(unpackingDir))
		must(t, err)
		if len(entries) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%v is left", entries)
		}
	}
}

// TestFiles: layouts and archives are read as their user, who must be able to.
func TestFiles(t *testing.T) {
	c, u := newCache(t), person(t, 1000)
	image := imageOf(t, layerOf(t, tarOf(t, entry{name: "a", content: "x"})))
	dir := filepath.Join(u.Home, "layout")
	path, err := layout.Write(dir, empty.Index)
	must(t, err)
	must(t, path.AppendImage(image))
	must(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		return errors.Join(err, os.Chmod(path, info.Mode()|0o444))
	}))
	digest, err := image.Digest()
	must(t, err)
	r, err := ref.Parse("oci:"+dir+"@"+digest.String(), "")
	must(t, err)
	if _, err := pullRoot(t, c, u, r); err != nil {
		t.Error(err)
	}
	file := filepath.Join(u.Home, "saved.tar")
	must(t, tarball.WriteToFile(file, nil, image))
	config, err := image.ConfigName()
	must(t, err)
	r, err = ref.Parse("docker-archive:"+file+"@"+config.String(), "")
	must(t, err)
	if _, err := pullRoot(t, c, u, r); err != nil {
		t.Error(err)
	}
	must(t, os.Chmod(file, 0o600)) // root's
	refused(t, newCache(t), u, r, "permission denied")
}

// TestFilesOfSquashfs: a file of the user's is read as that user, and pinned by what is in
// it.
func TestFilesOfSquashfs(t *testing.T) {
	u := person(t, 1000)
	from := t.TempDir()
	must(t, os.Chmod(from, 0o755))
	must(t, os.WriteFile(filepath.Join(from, "a"), []byte("content"), 0o644))
	file := filepath.Join(u.Home, "tools.sqsh")
	squashfs := func() {
		out, err := exec.Command("mksquashfs", from, file, "-noappend", "-quiet", "-no-progress").CombinedOutput()
		if err != nil {
			t.Fatalf("%v (make setup installs mksquashfs): %s", err, out)
		}
	}
	squashfs()
	pinned, err := exec.Command(program, "pin", file).Output()
	must(t, err)
	r, err := ref.ParsePinned(strings.TrimSpace(string(pinned)))
	must(t, err)
	c := newCache(t)
	root, err := pullRoot(t, c, u, r)
	must(t, err)
	if content, err := os.ReadFile(filepath.Join(root.Layers[0], "a")); err != nil || string(content) != "content" {
		t.Errorf("%q %v", content, err)
	}
	if _, err := pullRoot(t, c, person(t, 1001), r); err != nil { // who can read it has it from the cache
		t.Error(err)
	}
	must(t, unix.Mknod(filepath.Join(from, "disk"), unix.S_IFBLK, 0))
	must(t, os.WriteFile(filepath.Join(from, "a"), []byte("others"), 0o644))
	squashfs()
	refused(t, newCache(t), u, r, "should be sha256:")
	pinned, err = exec.Command(program, "pin", file).Output()
	must(t, err)
	evil, err := ref.ParsePinned(strings.TrimSpace(string(pinned)))
	must(t, err)
	refused(t, newCache(t), u, evil, "a device file, /disk")
	must(t, os.Truncate(file, 200))
	refused(t, newCache(t), u, evil, "copy the file again")
	must(t, os.Chmod(file, 0o600)) // root's
	refused(t, newCache(t), u, evil, "permission denied")
}
