package roots

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// BenchmarkPull pulls an image of a registry on this machine, in MB by IMAGE_MB (64), and
// does the same with skopeo copy and umoci unpack where they are installed: the metric
// is how many times as long as those it takes. cached is the time of a second start.
func BenchmarkPull(b *testing.B) {
	megabytes, _ := strconv.Atoi(os.Getenv("IMAGE_MB"))
	if megabytes == 0 {
		megabytes = 64
	}
	s, u := newSite(b), person(b, 1000)
	const layers = 4
	var parts []v1.Layer
	random := rand.NewChaCha8([32]byte{2})
	for l := range layers {
		var entries []entry
		for i := range megabytes / layers {
			content := make([]byte, 1<<20)
			_, _ = random.Read(content[:len(content)/2]) // half of it compresses
			entries = append(entries, entry{name: "d" + strconv.Itoa(l) + "/" + strconv.Itoa(i), content: string(content)})
		}
		parts = append(parts, layerOf(b, tarOf(b, entries...)))
	}
	r := s.push(b, "lab/large:1", imageOf(b, parts...))
	quiet := func(string) {}
	var ours, theirs, cached time.Duration
	for b.Loop() {
		c := newCache(b)
		c.Limit = 8 << 30
		begin := time.Now()
		root, err := c.Root(context.Background(), u, r, quiet)
		must(b, err)
		ours += time.Since(begin)
		root.Close()
		begin = time.Now()
		root, err = c.Root(context.Background(), u, r, quiet)
		must(b, err)
		cached += time.Since(begin)
		root.Close()
		theirs += withTools(b, r.Name+"@"+r.Digest)
	}
	b.ReportMetric(ours.Seconds()/float64(b.N), "s/pull")
	b.ReportMetric(float64(cached.Microseconds())/1000/float64(b.N), "ms/cached")
	if theirs > 0 {
		b.ReportMetric(theirs.Seconds()/float64(b.N), "s/skopeo+umoci")
		b.ReportMetric(ours.Seconds()/theirs.Seconds(), "times")
	}
}

func withTools(b *testing.B, name string) time.Duration {
	for _, tool := range []string{"skopeo", "umoci"} {
		if _, err := exec.LookPath(tool); err != nil {
			return 0
		}
	}
	dir := b.TempDir()
	layout, bundle := filepath.Join(dir, "layout"), filepath.Join(dir, "bundle")
	begin := time.Now()
	for _, command := range [][]string{
		{"skopeo", "--insecure-policy", "copy", "--src-tls-verify=false", "docker://" + name, "oci:" + layout + ":x"},
		{"umoci", "unpack", "--image", layout + ":x", bundle},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			b.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
		}
	}
	return time.Since(begin)
}
