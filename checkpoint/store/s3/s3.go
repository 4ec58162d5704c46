// Package s3 is a store.Bucket on a server that speaks S3: Amazon's, MinIO, Ceph, Garage and
// others.
//
//	place := store.Place{Address: "s3://bucket/prefix", Endpoint: "https://s3.example.org", Region: "eu-1"}
//	bucket, err := s3.Open(place)
//	d, err := store.OpenBucket(ctx, bucket, store.Limits{}, nil)
//
// Whoever imports it has stores in buckets: store.OpenPlace opens them. It is apart from
// package store, so that who only needs a directory does not carry its libraries.
//
// What it promises: every request is signed with the SHA-256 of what it sends, and tried
// again with growing pauses while the context allows, unless the server says that it will
// always refuse; nothing waits longer than the context says. What it asks for: a server with
// strong consistency, as all of these have by now. Permissions that it needs on the bucket:
// to list, get, put and delete objects, and to list and abort uploads.
package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/gleaner-hpc/gleaner/checkpoint/store"
)

func init() { store.RegisterBuckets(Open) }

const amazon = "https://s3.amazonaws.com"

// mostTries is how often a request is made, with pauses that grow to a second: a server may
// be restarted meanwhile. The context bounds it, too.
const mostTries = 50

// bucket implements store.Bucket.
type bucket struct {
	name, prefix string
	place        store.Place
	tries        int
	core         *minio.Core
	keys         *credentials.Credentials
}

// Open prepares to speak to a bucket; nothing is asked yet.
func Open(place store.Place) (store.Bucket, error) {
	name, prefix, err := place.Bucket()
	if err != nil {
		return nil, err
	}
	endpoint := place.Endpoint
	if endpoint == "" {
		endpoint = amazon
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	secure := u.Scheme == "https"
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, err
	}
	transport.ResponseHeaderTimeout = 30 * time.Second
	tries := place.Tries
	if tries == 0 {
		tries = mostTries
	}
	keys := credentials.New(newProvider(place.Credentials))
	core, err := minio.NewCore(u.Host, &minio.Options{Creds: keys, Secure: secure, Region: place.Region, Transport: transport, MaxRetries: tries})
	if err != nil {
		return nil, fmt.Errorf("prepare to speak to %s: %w", endpoint, err)
	}
	return &bucket{name: name, prefix: prefix, place: place, tries: tries, core: core, keys: keys}, nil
}

// Name implements store.Bucket.
func (b *bucket) Name() string {
	return strings.TrimSuffix(store.BucketScheme+b.name+"/"+b.prefix, "/")
}

// key answers the key on the server.
func (b *bucket) key(key string) string {
	if b.prefix == "" {
		return key
	}
	return b.prefix + "/" + key
}

// List implements store.Bucket.
func (b *bucket) List(ctx context.Context, prefix string) ([]store.Object, error) {
	var all []store.Object
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cut := len(b.key(""))
	for info := range b.core.Client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: b.key(prefix), Recursive: true}) {
		if info.Err != nil {
			return nil, b.fault(ctx, "list", prefix, info.Err)
		}
		all = append(all, store.Object{Key: info.Key[cut:], Bytes: info.Size, Changed: info.LastModified})
	}
	if err := ctx.Err(); err != nil {
		return nil, b.fault(ctx, "list", prefix, err)
	}
	slices.SortFunc(all, func(a, b store.Object) int { return strings.Compare(a.Key, b.Key) })
	return all, nil
}

// Stat implements store.Bucket.
func (b *bucket) Stat(ctx context.Context, key string) (store.Object, error) {
	info, err := b.core.Client.StatObject(ctx, b.name, b.key(key), minio.StatObjectOptions{})
	if err != nil {
		return store.Object{}, b.fault(ctx, "look at", key, err)
	}
	return store.Object{Key: key, Bytes: info.Size, Changed: info.LastModified}, nil
}

// sumOf answers the sum that a request is signed with.
func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Put implements store.Bucket.
func (b *bucket) Put(ctx context.Context, key string, data []byte, onlyOver bool) error {
	options := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableContentSha256: true}
	if onlyOver {
		info, err := b.core.Client.StatObject(ctx, b.name, b.key(key), minio.StatObjectOptions{})
		if err != nil {
			return b.fault(ctx, "write", key, err)
		}
		options.SetMatchETag(info.ETag)
	}
	_, err := b.core.PutObject(ctx, b.name, b.key(key), bytes.NewReader(data), int64(len(data)), "", sumOf(data), options)
	return b.fault(ctx, "write", key, err)
}

// ReadAt implements store.Bucket. What came before a connection broke is not asked for again.
func (b *bucket) ReadAt(ctx context.Context, key string, into []byte, at int64) (int, error) {
	got := 0
	for tries := 0; got < len(into); tries++ {
		n, failed, err := b.readOnce(ctx, key, into[got:], at+int64(got))
		got += n
		switch {
		case err == nil:
		case minio.ToErrorResponse(err).StatusCode == http.StatusRequestedRangeNotSatisfiable:
			return got, io.EOF
		case failed || tries >= b.tries || ctx.Err() != nil:
			return got, b.fault(ctx, "read", key, err)
		}
	}
	return got, nil
}

// readOnce answers what one connection brought, and whether the request itself failed: that
// was tried again already.
func (b *bucket) readOnce(ctx context.Context, key string, into []byte, at int64) (n int, failed bool, err error) {
	options := minio.GetObjectOptions{}
	if err := options.SetRange(at, at+int64(len(into))-1); err != nil {
		return 0, true, err
	}
	body, _, _, err := b.core.GetObject(ctx, b.name, b.key(key), options)
	if err != nil {
		return 0, true, err
	}
	n, err = io.ReadFull(body, into)
	return n, false, errors.Join(err, body.Close())
}

// Copy implements store.Bucket.
func (b *bucket) Copy(ctx context.Context, from, to string) error {
	_, err := b.core.CopyObject(ctx, b.name, b.key(from), b.name, b.key(to), nil, minio.CopySrcOptions{}, minio.PutObjectOptions{})
	return b.fault(ctx, "copy", from, err)
}

// Remove implements store.Bucket.
func (b *bucket) Remove(ctx context.Context, key string) error {
	err := b.core.RemoveObject(ctx, b.name, b.key(key), minio.RemoveObjectOptions{})
	if err = b.fault(ctx, "remove", key, err); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Begin implements store.Bucket.
func (b *bucket) Begin(ctx context.Context, key string) (string, error) {
	upload, err := b.core.NewMultipartUpload(ctx, b.name, b.key(key), minio.PutObjectOptions{ContentType: "application/octet-stream"})
	return upload, b.fault(ctx, "begin", key, err)
}

// Piece implements store.Bucket.
func (b *bucket) Piece(ctx context.Context, key, upload string, number int, data []byte) (string, error) {
	part, err := b.core.PutObjectPart(ctx, b.name, b.key(key), upload, number, bytes.NewReader(data), int64(len(data)), minio.PutObjectPartOptions{Sha256Hex: sumOf(data), DisableContentSha256: true})
	return part.ETag, b.fault(ctx, "write", key, err)
}

// Complete implements store.Bucket.
func (b *bucket) Complete(ctx context.Context, key, upload string, tags []string) error {
	parts := make([]minio.CompletePart, len(tags))
	for i, tag := range tags {
		parts[i] = minio.CompletePart{PartNumber: i + 1, ETag: tag}
	}
	_, err := b.core.CompleteMultipartUpload(ctx, b.name, b.key(key), upload, parts, minio.PutObjectOptions{})
	return b.fault(ctx, "complete", key, err)
}

// Abort implements store.Bucket.
func (b *bucket) Abort(ctx context.Context, key, upload string) error {
	err := b.core.AbortMultipartUpload(ctx, b.name, b.key(key), upload)
	if err = b.fault(ctx, "give up", key, err); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// AbortAll implements store.Bucket.
func (b *bucket) AbortAll(ctx context.Context, prefix string) error {
	for {
		found, err := b.core.ListMultipartUploads(ctx, b.name, b.key(prefix), "", "", "", 1000)
		lacks := minio.ToErrorResponse(err).StatusCode == http.StatusNotImplemented // it may give them up by itself
		if err = b.fault(ctx, "list uploads below", prefix, err); lacks || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, upload := range found.Uploads {
			if err := b.Abort(ctx, upload.Key[len(b.key("")):], upload.UploadID); err != nil {
				return err
			}
		}
		if !found.IsTruncated {
			return nil
		}
	}
}
