package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
)

// BucketScheme is how the address of a bucket begins.
const BucketScheme = "s3://"

// Place says where a store is.
type Place struct {
	Address string `json:"address"` // a directory, or s3://BUCKET/PREFIX
	// Of a bucket:
	Endpoint string `json:"endpoint,omitempty"` // http://HOST:PORT or https://HOST; "" = Amazon's
	Region   string `json:"region,omitempty"`   // "" = the server is asked
	// Credentials is a file as the AWS command line has it, with [default]; "" = they are in
	// the environment, as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
	Credentials string `json:"credentials,omitempty"`
	Tries       int    `json:"tries,omitempty"` // of a request, at most; 0 = as many as a restart of the server takes
}

// InBucket says whether the place is a bucket.
func (p Place) InBucket() bool { return strings.HasPrefix(p.Address, BucketScheme) }

// Bucket answers the name of the bucket, and the prefix in it, or why they cannot be used.
func (p Place) Bucket() (name, prefix string, err error) {
	rest, is := strings.CutPrefix(p.Address, BucketScheme)
	name, prefix, _ = strings.Cut(rest, "/")
	prefix = strings.Trim(prefix, "/")
	odd := strings.IndexFunc(prefix, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0
	dots := slices.ContainsFunc(strings.Split(prefix, "/"), func(s string) bool { return s == "." || s == ".." || s == "" && prefix != "" })
	if !is || !isBucketName(name) || odd || dots || len(prefix) > mostPrefix {
		return "", "", fmt.Errorf("%q is no address of a bucket: give s3://BUCKET or s3://BUCKET/PREFIX", p.Address)
	}
	if p.Endpoint != "" {
		if err := checkEndpoint(p.Endpoint); err != nil {
			return "", "", err
		}
	}
	return name, prefix, nil
}

// mostPrefix leaves room for the rest of a key, which has 1024 bytes at most.
const mostPrefix = 256

func isBucketName(name string) bool {
	odd := strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.'
	})
	return odd < 0 && len(name) >= 3 && len(name) <= 63 && !strings.Contains(name, "..") && strings.Trim(name, ".-") == name
}

func checkEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q is no address of a server: give https://HOST or http://HOST:PORT", endpoint)
	}
	return nil
}

// openBucket opens buckets, if the program has what that takes.
var openBucket atomic.Pointer[func(Place) (Bucket, error)]

// RegisterBuckets says how buckets are opened. Package s3 does.
func RegisterBuckets(open func(Place) (Bucket, error)) { openBucket.Store(&open) }

// OpenPlace opens the store at a place, encrypted unless keys is nil.
func OpenPlace(ctx context.Context, place Place, limits Limits, keys *Keys) (*Directory, error) {
	if !place.InBucket() {
		return OpenSealed(ctx, place.Address, limits, keys)
	}
	open := openBucket.Load()
	if open == nil {
		return nil, errors.New("this program cannot speak to buckets")
	}
	bucket, err := (*open)(place)
	if err != nil {
		return nil, err
	}
	return OpenBucket(ctx, bucket, limits, keys)
}
