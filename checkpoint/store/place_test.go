package store

import (
	"strings"
	"testing"
)

func TestPlaces(t *testing.T) {
	for address, good := range map[string]bool{
		"s3://abc": true, "s3://abc/d/e/": true, "s3://a-1.b/x y": true,
		"s3://": false, "s3://ab": false, "s3://a/../b": false, "http://abc": false, "s3://Abc": false, "s3://abc/../d": false,
		"s3://abc/d\n": false, "s3://abc/d//e": false, "s3://abc/./d": false, "s3://a..b": false, "s3://-abc": false, "/abc": false,
		"s3://abc/" + strings.Repeat("x", 257): false, "s3://abc@def": false, "s3://user:secret@abc/d": false,
	} {
		if _, _, err := (Place{Address: address}).Bucket(); (err == nil) != good {
			t.Errorf("%q: %v", address, err)
		}
	}
	for endpoint, good := range map[string]bool{
		"https://s3.example.org": true, "http://10.0.0.1:9000/": true, "http://[::1]:9000": true,
		"s3.example.org": false, "ftp://x": false, "https://u:p@x": false, "https://x/y": false, "https://": false, "https://:9": false, "https://x?y": false,
	} {
		if _, _, err := (Place{Address: "s3://abc", Endpoint: endpoint}).Bucket(); (err == nil) != good {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}

// FuzzPlace: an address that is taken has a bucket and a prefix that make sense as keys.
func FuzzPlace(f *testing.F) {
	f.Add("s3://bucket/prefix", "https://host")
	f.Add("s3://bucket//x/../y", "http://host:1/")
	f.Fuzz(func(t *testing.T, address, endpoint string) {
		name, prefix, err := Place{Address: address, Endpoint: endpoint}.Bucket()
		if err == nil && (len(name) < 3 || strings.ContainsAny(name, "/:@") || strings.HasPrefix(prefix, "/") || strings.HasSuffix(prefix, "/") || strings.Contains("/"+prefix+"/", "/../")) {
			t.Errorf("%q, %q: %q, %q", address, endpoint, name, prefix)
		}
	})
}
