package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

const (
	// renewPause is how long a failed renewal is left alone.
	renewPause = 6 * time.Hour
	// renewLimit bounds a renewal during a command that takes longer than that.
	renewLimit = 20 * time.Second
	// renewWait bounds how long a command that has done its work waits for one.
	renewWait = time.Second
	// renewWarns is how long before the end of a certificate that cannot be renewed
	// each command says so.
	renewWarns = 14 * 24 * time.Hour
)

var errTooSlow = errors.New("no controller answered in time")

// renewal is the renewal of the user's certificate during a command; nil when
// nothing is due.
type renewal struct {
	cancel context.CancelCauseFunc
	done   chan error
	dir    string
	holder string
	until  time.Time // the end of the present certificate
}

// startRenewal renews the certificate that this user shows to the targets, if
// the user owns it and it is in the last third of its life. The command
// continues meanwhile.
func startRenewal(targets []string, now time.Time) *renewal {
	remote := dial.Remote(targets)
	if len(remote) == 0 {
		return nil
	}
	dir, err := dial.TLSDir()
	if dir == "" || err != nil {
		return nil
	}
	due, err := dial.Due(dir, now)
	if due == nil || err != nil || !strings.HasPrefix(due.Holder(), "user:") || !isOwn(filepath.Join(dir, "cert.pem")) {
		return nil
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &renewal{cancel: cancel, done: make(chan error, 1), dir: dir, holder: due.Holder(), until: due.Until()}
	go func() {
		_, err := dial.Renew(dir, now, renewPause, func(request []byte) ([]byte, error) { return askRenewal(ctx, remote, dir, request) })
		r.done <- err
	}()
	return r
}

// isOwn reports whether a file is this user's. Nodes and controllers renew theirs
// themselves, and root does not write where another user may put links.
func isOwn(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	about, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(about.Uid) == os.Geteuid()
}

func askRenewal(ctx context.Context, targets []string, dir string, request []byte) ([]byte, error) {
	connection, err := dial.Dial(targets, dir)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	limited, cancel := context.WithTimeoutCause(ctx, renewLimit, errTooSlow)
	defer cancel()
	answer, err := pb.NewControllerClient(connection).RenewCertificate(limited, &pb.RenewCertificateRequest{Request: request})
	switch {
	case err != nil && limited.Err() != nil:
		return nil, context.Cause(limited)
	case err != nil:
		return nil, errors.New(status.Convert(err).Message())
	}
	return answer.GetCertificate(), nil
}

// finish waits a moment for the renewal and returns a warning for the user, if
// there is one.
func (r *renewal) finish() (warning string) {
	if r == nil {
		return ""
	}
	var err error
	late := time.AfterFunc(renewWait, func() { r.cancel(errTooSlow) })
	defer late.Stop()
	select {
	case err = <-r.done:
	case <-time.After(2 * renewWait): // the disk hangs; what it does later is whole or nothing
		err = errTooSlow
	}
	if err == nil || time.Until(r.until) > renewWarns {
		return ""
	}
	return fmt.Sprintf("your certificate in %s is good until %s, and could not be renewed (%v): ask for a new one, which gctld cert --user %s writes on the controller's host",
		r.dir, r.until.Format(time.DateTime), err, strings.TrimPrefix(r.holder, "user:"))
}
