package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/gleaner-hpc/gleaner/checkpoint/store"
	"github.com/gleaner-hpc/gleaner/checkpoint/store/s3"
)

const (
	// requestTries is how often a request is made; patience bounds it, too.
	requestTries = 20
	// mostPieces of an object is S3's own bound.
	mostPieces = 10000
)

// bucket opens the bucket that a URL names, with the user's own credentials.
func (c *copier) bucket(u *url.URL) (store.Bucket, error) {
	env := func(names ...string) string {
		for _, name := range names {
			if value := c.getenv(name); value != "" {
				return value
			}
		}
		return ""
	}
	place := store.Place{
		Address: store.BucketScheme + u.Host, Tries: requestTries,
		Endpoint: env("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), Region: env("AWS_REGION", "AWS_DEFAULT_REGION"),
	}
	if env("AWS_ACCESS_KEY_ID") == "" {
		place.Credentials = env("AWS_SHARED_CREDENTIALS_FILE")
		if place.Credentials == "" {
			place.Credentials = filepath.Join(env("HOME"), ".aws", "credentials")
		}
		if _, err := os.Stat(place.Credentials); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there are no credentials for s3://: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY when the job is submitted, or write them to %s", place.Credentials)
		}
	}
	return s3.Open(place)
}

func keyOf(u *url.URL) string { return strings.TrimPrefix(u.Path, "/") }

// object is one of a bucket.
type object struct {
	store.Object
	bucket store.Bucket
}

func (o *object) name() string { return o.bucket.Name() + "/" + o.Key }
func (o *object) size() int64  { return o.Bytes }
func (o *object) sum() string  { return "" }

// read implements remote: it brings one piece.
func (o *object) read(ctx context.Context, into io.Writer, at int64) (bool, error) {
	if at >= o.Bytes {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	piece := make([]byte, min(store.PieceBytes, o.Bytes-at))
	for at < o.Bytes {
		n, err := o.bucket.ReadAt(ctx, o.Key, piece[:min(int64(len(piece)), o.Bytes-at)], at)
		if _, writeErr := into.Write(piece[:n]); writeErr != nil {
			return false, writeErr
		}
		at += int64(n)
		switch {
		case errors.Is(err, io.EOF) && at < o.Bytes:
			return false, final("it became shorter while it was copied")
		case err != nil && !errors.Is(err, store.ErrSilent) && !errors.Is(err, io.EOF):
			return false, &finalError{err}
		case err != nil && !errors.Is(err, io.EOF):
			return false, err
		}
	}
	return true, nil
}

// fetchObjects brings an object, or all below a prefix that ends with a slash.
func (c *copier) fetchObjects(ctx context.Context, u *url.URL, target string) error {
	bucket, err := c.bucket(u)
	if err != nil {
		return err
	}
	key := keyOf(u)
	if !strings.HasSuffix(key, "/") {
		about, err := asked(ctx, func(ctx context.Context) (store.Object, error) { return bucket.Stat(ctx, key) })
		if err != nil {
			return err
		}
		root, name, err := openTarget(target, path.Base(key))
		if err != nil {
			return err
		}
		defer root.Close()
		return c.fetchObject(ctx, &object{about, bucket}, root, name, wantedSum(u))
	}
	all, err := asked(ctx, func(ctx context.Context) ([]store.Object, error) { return bucket.List(ctx, key) })
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fs.ErrNotExist
	}
	if err := os.MkdirAll(target, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(target)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, about := range all {
		name := strings.TrimPrefix(about.Key, key)
		if name == "" || strings.HasSuffix(name, "/") {
			continue // stands for a directory
		}
		if !filepath.IsLocal(name) || path.Clean(name) != name {
			return fmt.Errorf("an object has a name that no file can have: %.100q", about.Key)
		}
		if err := c.fetchObject(ctx, &object{about, bucket}, root, name, ""); err != nil {
			return fmt.Errorf("%s: %w", about.Key, err)
		}
	}
	return nil
}

func (c *copier) fetchObject(ctx context.Context, from *object, root *os.Root, name, wanted string) error {
	if hasSum(root, name, wanted) {
		return nil
	}
	f, err := makeInto(root, name)
	if err != nil {
		return err
	}
	return f.finish(c.download(ctx, from, f.part, wanted))
}

// sendObjects sends a file, or a directory, to a bucket.
func (c *copier) sendObjects(ctx context.Context, source, base string, u *url.URL) error {
	bucket, err := c.bucket(u)
	if err != nil {
		return err
	}
	return eachFile(source, func(file *os.File, name string, size int64) error {
		key := keyOf(u)
		if name == "" && strings.HasSuffix(key, "/") {
			name = base
		}
		if name != "" {
			key = strings.TrimSuffix(key, "/") + "/" + filepath.ToSlash(name)
		}
		return c.sendObject(ctx, bucket, key, file, size)
	})
}

// sendObject sends one, in pieces, each with its SHA-256, which the server compares. What
// came is there when all of it is.
func (c *copier) sendObject(ctx context.Context, bucket store.Bucket, key string, file *os.File, size int64) (err error) {
	name := bucket.Name() + "/" + key
	length := pieceLength(size)
	piece := make([]byte, min(length, size))
	if size <= length {
		if _, err := io.ReadFull(file, piece); err != nil {
			return fmt.Errorf("it changed while it was copied: %w", err)
		}
		_, err := asked(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, bucket.Put(ctx, key, piece, false) })
		return err
	}
	upload, err := asked(ctx, func(ctx context.Context) (string, error) { return bucket.Begin(ctx, key) })
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), silence)
			defer cancel()
			_ = bucket.Abort(limited, key, upload)
		}
	}()
	var tags []string
	for at := int64(0); at < size; at += length {
		part := piece[:min(length, size-at)]
		if _, err := io.ReadFull(file, part); err != nil {
			return fmt.Errorf("it changed while it was copied: %w", err)
		}
		tag, err := asked(ctx, func(ctx context.Context) (string, error) { return bucket.Piece(ctx, key, upload, len(tags)+1, part) })
		if err != nil {
			return err
		}
		tags = append(tags, tag)
		c.progress(name, at+int64(len(part)), size)
	}
	return complete(ctx, bucket, key, upload, tags, size)
}

// complete completes an object. If an answer was lost, the upload is gone and the object is
// there.
func complete(ctx context.Context, bucket store.Bucket, key, upload string, tags []string, size int64) error {
	_, err := asked(ctx, func(ctx context.Context) (struct{}, error) {
		err := bucket.Complete(ctx, key, upload, tags)
		if errors.Is(err, fs.ErrNotExist) {
			if about, statErr := bucket.Stat(ctx, key); statErr == nil && about.Bytes == size {
				err = nil
			}
		}
		return struct{}{}, err
	})
	return err
}

// asked makes a request until the server answers, or nothing was heard of it for too long.
func asked[T any](ctx context.Context, request func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for pause := newPause(); ; {
		answer, err := request(ctx)
		if !errors.Is(err, store.ErrSilent) || rest(ctx, pause.NextBackOff(), err) != nil {
			return answer, err
		}
	}
}

// pieceLength is how long the pieces of an object of a size are.
func pieceLength(size int64) int64 {
	const megabyte = 1 << 20
	return max(store.PieceBytes, (size/mostPieces/megabyte+1)*megabyte)
}
