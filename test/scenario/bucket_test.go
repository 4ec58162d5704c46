package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"filippo.io/age"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gleaner-hpc/gleaner/checkpoint/store/s3/s3test"
)

func init() {
	commands["bucket"] = runBucket
	commands["sitekey"] = addSiteKey
}

var buckets sync.Map // of stories

// runBucket is `bucket start | stop | skew DURATION`: a server that speaks S3, with the
// bucket "images". start sets BUCKET, its address, and writes FILE, the credentials, which it
// also sets; after stop, it starts the same again, with what it had.
func runBucket(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: bucket start | stop | skew DURATION")
	}
	known, _ := buckets.Load(ts.Getenv("STORY"))
	server, _ := known.(*s3test.Server)
	switch {
	case args[0] == "start" && server == nil:
		server, err := s3test.Start()
		ts.Check(err)
		ts.Defer(server.Stop)
		buckets.Store(ts.Getenv("STORY"), server)
		file := filepath.Join(ts.Getenv("WORK"), "credentials")
		text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", s3test.Key, s3test.Secret)
		ts.Check(os.WriteFile(file, []byte(text), 0o600))
		ts.Setenv("BUCKET", server.Endpoint)
		ts.Setenv("CREDENTIALS", file)
	case args[0] == "start":
		ts.Check(server.Restart())
	case args[0] == "stop":
		server.Stop()
	case args[0] == "skew" && len(args) == 2:
		by, err := time.ParseDuration(args[1])
		ts.Check(err)
		server.Skew(by)
	default:
		ts.Fatalf("bucket: what is %q?", args)
	}
}

// addSiteKey is `sitekey FILE`: adds a key, as age-keygen makes them, to a site's file.
func addSiteKey(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sitekey FILE")
	}
	key, err := age.GenerateX25519Identity()
	ts.Check(err)
	file, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	ts.Check(err)
	_, err = fmt.Fprintln(file, key)
	ts.Check(err)
	ts.Check(file.Close())
}
