package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint/store"
	"github.com/gleaner-hpc/gleaner/checkpoint/store/s3"
	"github.com/gleaner-hpc/gleaner/checkpoint/store/s3/s3test"
)

// These tests speak to a server that checks signatures, over HTTP on this machine.

func startServer(t *testing.T) *s3test.Server {
	t.Helper()
	server, err := s3test.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

// credentialsFile writes credentials as the AWS command line has them.
func credentialsFile(t *testing.T, key, secret string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "credentials")
	text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", key, secret)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func bucketOf(t *testing.T, server *s3test.Server, credentials string) store.Bucket {
	t.Helper()
	bucket, err := s3.Open(store.Place{
		Address: "s3://" + s3test.Bucket + "/some/where", Endpoint: server.Endpoint, Region: "us-east-1", Credentials: credentials, Tries: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	return bucket
}

func openBucket(t *testing.T, server *s3test.Server, keys *store.Keys) (*store.Directory, store.Bucket) {
	t.Helper()
	bucket := bucketOf(t, server, credentialsFile(t, s3test.Key, s3test.Secret))
	d, err := store.OpenBucket(t.Context(), bucket, store.Limits{}, keys)
	if err != nil {
		t.Fatal(err)
	}
	return d, bucket
}

func keysIn(t *testing.T, bucket store.Bucket) []string {
	t.Helper()
	found, err := bucket.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, object := range found {
		keys = append(keys, object.Key)
	}
	return keys
}

func TestBucketKeepsImages(t *testing.T) {
	d, bucket := openBucket(t, startServer(t), nil)
	first := store.Program(1, 4500) // its packs come in pieces
	second := first.Changed()
	one := first.Put(t, d, 7, 1)
	two := second.Put(t, d, 7, 2)
	if two.WrittenBytes > one.WrittenBytes/4 {
		t.Errorf("the second image of a job wrote %d bytes, and the first %d", two.WrittenBytes, one.WrittenBytes)
	}
	first.Get(t, d, one.Digest)
	second.Get(t, d, two.Digest)
	if err := d.Delete(t.Context(), one.Digest); err != nil {
		t.Fatal(err)
	}
	other, _ := openBucketAgain(t, d, bucket)
	second.Get(t, other, two.Digest) // whole without the image that it was built on
	if _, err := other.Manifest(t.Context(), one.Digest); !errors.Is(err, store.ErrNoImage) {
		t.Errorf("a deleted image: %v", err)
	}
	if same := second.Put(t, other, 7, 2); same.Digest != two.Digest || same.WrittenBytes != 0 {
		t.Errorf("the same image again: %+v", same)
	}
	if about, err := other.List(t.Context()); err != nil || len(about) != 1 || about[0].Number != 2 || about[0].Node != "node-1" {
		t.Errorf("list: %+v, %v", about, err)
	}
	if usage, err := other.Usage(t.Context()); err != nil || usage.Images != 1 || usage.Used < one.WrittenBytes/2 {
		t.Errorf("usage: %+v, %v", usage, err)
	}
	if err := other.Delete(t.Context(), two.Digest); err != nil {
		t.Fatal(err)
	}
	if left := keysIn(t, bucket); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// openBucketAgain opens the store as another process would.
func openBucketAgain(t *testing.T, _ *store.Directory, bucket store.Bucket) (*store.Directory, store.Bucket) {
	t.Helper()
	d, err := store.OpenBucket(t.Context(), bucket, store.Limits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d, bucket
}

// denial is what a server answers that no longer lets us in.
const denial = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>AccessDenied</Code><Message>no</Message></Error>`

// stopAfter lets so many requests through, and refuses every other.
func stopAfter(server *s3test.Server, requests int64) (served *atomic.Int64) {
	served = new(atomic.Int64)
	before := func(w http.ResponseWriter, _ *http.Request) bool {
		if served.Add(1) <= requests {
			return true
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(denial))
		return false
	}
	server.Before.Store(&before)
	return served
}

// A save that ends at any request leaves no image, or a whole one, and the image before as it
// was; and nothing of it is left in the bucket, uploads included.
func TestBucketSaveStopsAnywhere(t *testing.T) {
	first := store.Program(2, 40)
	second := store.Program(9, 4500) // in pieces
	seen := 0
	for stop := int64(1); ; stop++ {
		server := startServer(t)
		d, bucket := openBucket(t, server, nil)
		one := first.Put(t, d, 7, 1)
		before := keysIn(t, bucket)
		m, directory := second.Write(t, 7, 2)
		stopAfter(server, stop)
		receipt, err := d.Put(t.Context(), m, directory)
		server.Before.Store(nil)
		seen += server.Uploads()
		again, _ := openBucketAgain(t, d, bucket) // tidies
		first.Get(t, again, one.Digest)
		if err == nil {
			second.Get(t, again, receipt.Digest)
			if stop < 10 || seen == 0 {
				t.Fatalf("a save of %d requests, and in no case an upload was under way", stop)
			}
			return
		}
		if !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), "see the credentials") {
			t.Fatalf("stopped after %d requests: %v", stop, err)
		}
		images, err := again.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(images) == 2 { // it was published, and nobody was told: it is whole
			second.Get(t, again, images[1].Digest)
			continue
		}
		if left := keysIn(t, bucket); !slices.Equal(left, before) {
			t.Errorf("stopped after %d requests: left %q, there were %q", stop, left, before)
		}
		if n := server.Uploads(); n > 0 {
			t.Errorf("stopped after %d requests: %d uploads are left", stop, n)
		}
		server.Stop()
	}
}

func TestBucketWriterTakenForDead(t *testing.T) {
	d, bucket := openBucket(t, startServer(t), nil)
	s := store.Program(3, 40)
	m, directory := s.Write(t, 7, 1)
	w, err := d.Begin(t.Context(), m, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.PutAway(w); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(t.Context(), m, directory); err == nil || !strings.Contains(err.Error(), "nothing was heard") {
		t.Errorf("a writer whose directory is gone: %v", err)
	}
	if images, err := d.List(t.Context()); err != nil || len(images) > 0 {
		t.Errorf("images: %v, %v", images, err)
	}
	_ = bucket
}

func TestBucketCredentials(t *testing.T) {
	server := startServer(t)
	for _, c := range []struct{ file, says string }{
		{credentialsFile(t, s3test.Key, "another"), "see the credentials in "},
		{credentialsFile(t, "NOBODY", s3test.Secret), "see the credentials in "},
		{filepath.Join(t.TempDir(), "none"), "no such file"},
		{file(t, "[default]\n", 0o600), "aws_access_key_id = "},
		{file(t, "[default]\naws_access_key_id=a\naws_secret_access_key=b\n", 0o644), "chmod 600"},
		{file(t, "nothing of use", 0o600), "aws_access_key_id = "},
	} {
		_, err := store.OpenBucket(t.Context(), bucketOf(t, server, c.file), store.Limits{}, nil)
		if !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.file, err)
		}
	}
	// A file that was mended is read again.
	mended := credentialsFile(t, s3test.Key, "another")
	bucket := bucketOf(t, server, mended)
	if _, err := bucket.List(t.Context(), ""); !errors.Is(err, store.ErrRefused) {
		t.Error(err)
	}
	data, err := os.ReadFile(mended)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mended, bytes.ReplaceAll(data, []byte("another"), []byte(s3test.Secret)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.List(t.Context(), ""); err != nil {
		t.Error(err)
	}
}

func file(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBucketRefusals(t *testing.T) {
	server := startServer(t)
	place := store.Place{Address: "s3://no-such-bucket", Endpoint: server.Endpoint, Region: "us-east-1", Credentials: credentialsFile(t, s3test.Key, s3test.Secret)}
	if _, err := store.OpenPlace(t.Context(), place, store.Limits{}, nil); !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), "no-such-bucket exists") {
		t.Errorf("no bucket: %v", err)
	}
	// Times that differ.
	d, _ := openBucket(t, server, nil)
	server.Skew(3 * time.Hour)
	if _, err := d.List(t.Context()); !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), "clock") {
		t.Errorf("clocks differ: %v", err)
	}
}

// A server that is gone says nothing about an image; when it is back, the image is read.
func TestBucketServerGone(t *testing.T) {
	server := startServer(t)
	d, _ := openBucket(t, server, nil)
	s := store.Program(4, 400)
	receipt := s.Put(t, d, 7, 1)
	image, err := d.Open(t.Context(), receipt.Digest)
	if err != nil {
		t.Fatal(err)
	}
	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	m, directory := s.Changed().Write(t, 7, 2)
	if _, err := d.Put(ctx, m, directory); !errors.Is(err, store.ErrSilent) {
		t.Errorf("put: %v", err)
	}
	err = image.Chunks(t.Context(), []store.Ref{{Part: firstData(image), Chunk: 0}}, func(int, []byte) error { return nil })
	var damage *store.Damage
	if !store.Away(err) || errors.As(err, &damage) {
		t.Errorf("read: %v", err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	s.Get(t, d, receipt.Digest)
}

// firstData answers the first part that begins with bytes.
func firstData(image store.Image) uint32 {
	for i, part := range image.Manifest().Parts {
		if len(part.Chunks) > 0 && !part.Chunks[0].Hole() {
			return uint32(i)
		}
	}
	return 0
}

// breaking ends the connection after some bytes of the answer.
type breaking struct {
	http.ResponseWriter
	left int
}

func (b *breaking) Write(data []byte) (int, error) {
	if len(data) > b.left {
		_, _ = b.ResponseWriter.Write(data[:b.left])
		panic(http.ErrAbortHandler)
	}
	b.left -= len(data)
	return b.ResponseWriter.Write(data)
}

// What a connection brought before it broke is not asked for again; an answer that a server is
// busy is no end.
func TestBucketConnectionsBreak(t *testing.T) {
	server := startServer(t)
	d, _ := openBucket(t, server, nil)
	s := store.Program(5, 1500)
	receipt := s.Put(t, d, 7, 1)
	var broken, busy atomic.Int64
	before := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || r.Header.Get("Range") == "" {
			return true
		}
		switch {
		case broken.Load() < 4 && broken.Add(1) > 0:
			server.Handle(&breaking{w, 50_000}, r)
			return false
		case busy.CompareAndSwap(0, 1):
			w.WriteHeader(http.StatusServiceUnavailable)
			return false
		}
		return true
	}
	server.Before.Store(&before)
	s.Get(t, d, receipt.Digest)
	if broken.Load() < 4 || busy.Load() != 1 {
		t.Errorf("%d connections broke, and %d answers were of a busy server", broken.Load(), busy.Load())
	}
}
