package api

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/gleaner-hpc/gleaner/ctld/pki"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file decides which user a request counts for, before any part of it is
// read. A user is one and the same on the socket, with a certificate, through
// another controller and from inside a job. Root, nodes and controllers have no
// bounds.

// strangers are all users who have no account on the controller's host: a user
// who may map many numbers (subuid(5)) does not count as many users.
const strangers = "users without an account"

// accountWait is how long a connection waits for the name service. If that
// hangs each number is a user.
const accountWait = time.Second

const nodeLinkPrefix = "/gleaner.v1.NodeLink/"

// admit refuses a request of a user who has too many under way or asks too
// often. It must not block.
func (s *core) admit(ctx context.Context, info *tap.Info) (context.Context, error) {
	user := s.countsFor(ctx, info)
	if user == "" {
		return ctx, nil
	}
	if err := s.rates.take(user); err != nil {
		refusals.WithLabelValues(boundRate).Inc()
		return nil, err
	}
	kind := kindOf(info.FullMethodName)
	release, ok := s.places.take(kind.name+user, kind.limit)
	if !ok {
		refusals.WithLabelValues(boundRequests).Inc()
		return nil, status.Errorf(codes.Unavailable, "%s has %d %s under way already: wait until some are answered, or end some", user, kind.limit, kind.what)
	}
	context.AfterFunc(ctx, release)
	return context.WithValue(ctx, personKey{}, user), nil
}

// kind of a request, by how long it stays.
type kind struct {
	name, what string
	limit      int
}

func kindOf(method string) kind {
	switch method {
	case pb.Controller_Follow_FullMethodName:
		return kind{"follow ", "streams of changes", maxFollowersPerUser}
	case pb.Controller_Attach_FullMethodName:
		return kind{"attach ", "sessions", maxSessionsPerUser}
	}
	return kind{"", "requests", maxRequestsPerUser}
}

// countsFor is the user that a request counts for; "" = nobody with bounds.
func (s *core) countsFor(ctx context.Context, info *tap.Info) string {
	remote, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	from, trusted, host := "", false, ""
	switch shown := remote.AuthInfo.(type) {
	case peerInfo:
		from, trusted = shown.person, shown.uid == 0 || int(shown.uid) == os.Geteuid()
	case tlsInfo:
		from, trusted, host = shown.person, isNode(shown.TLSInfo), vouches(shown.TLSInfo)
	case mungeInfo:
		from = shown.person
	case linkInfo:
		from, trusted, host = s.boundedCaller(info.Header), first(info.Header, metadataTrusted) == "yes", vouchesThere(info.Header)
	}
	switch {
	case host != "" && saysUser(info.Header):
		return s.countsFrom(host, info.Header)
	case !trusted:
		return from
	case strings.HasPrefix(info.FullMethodName, nodeLinkPrefix):
		return ""
	case len(info.Header.Get(metadataJob)) > 0 || len(info.Header.Get(metadataUID)) > 0:
		return s.jobOwner(info.Header)
	}
	return from
}

// jobOwner is the user whose request a node says this is. A user without such a
// job there takes nothing from anybody: the request is refused when it is
// looked at.
func (s *core) jobOwner(header metadata.MD) string {
	id, epoch, ok := parseRun(first(header, metadataJob))
	if !ok {
		return ""
	}
	job, known := s.cluster.View().Job(id)
	if !known || !job.HoldsNodes() || job.Epoch != epoch || job.Alloc(first(header, metadataNode)) == nil {
		return ""
	}
	if uid := job.Owner().UID; first(header, metadataUID) == strconv.FormatUint(uint64(uid), 10) {
		return numbered(uid) // root too: in a job it is nobody special
	}
	return ""
}

func numbered(uid uint32) string { return "user " + strconv.FormatUint(uint64(uid), 10) }

// personOf is the user that a connection of this uid counts for; "" = root.
func personOf(uid uint32) string {
	if uid == 0 {
		return ""
	}
	asked := make(chan error, 1)
	go func() {
		_, err := doorLookups.uid(uid)
		asked <- err
	}()
	timer := time.NewTimer(accountWait)
	defer timer.Stop()
	select {
	case err := <-asked:
		if isStranger(err) {
			return strangers
		}
	case <-timer.C:
	}
	return numbered(uid)
}

// isStranger tells "there is no such account" from a name service that fails. A
// failure wraps that error, and is something else.
func isStranger(err error) bool { return err == errNoAccount }

// certified is the user that a connection with this certificate counts for; ""
// = the certificate is not a user's.
func certified(info credentials.TLSInfo) string {
	name := certificateUser(info)
	if name == "" {
		return loginHost(info)
	}
	account, err := lookupName(name)
	switch {
	case err == nil:
		return numbered(account.GetUid())
	case isStranger(err):
		return strangers
	}
	return "user " + name
}

// certificateUser is the name in a user's certificate, "" = it is another's.
func certificateUser(info credentials.TLSInfo) string {
	if len(info.State.PeerCertificates) == 0 {
		return ""
	}
	if kind, name, ok := pki.Holder(info.State.PeerCertificates[0]); ok && kind == pki.User {
		return name
	}
	return ""
}

func isNode(info credentials.TLSInfo) bool {
	if len(info.State.PeerCertificates) == 0 {
		return false
	}
	kind, _, ok := pki.Holder(info.State.PeerCertificates[0])
	return ok && kind == pki.Node
}

// boundedCaller is the user that another controller names, if that user has
// bounds.
func (s *core) boundedCaller(md metadata.MD) string {
	kind, rest, _ := strings.Cut(first(md, metadataCaller), " ")
	switch kind {
	case "user":
		if account, ok := remembered(rest); ok {
			return numbered(account.GetUid())
		}
		return "user " + rest
	case "host":
		return "host " + rest
	case mungeProof:
		return s.countsThere(md)
	case "uid":
		number, name, _ := strings.Cut(rest, " ")
		uid, err := strconv.ParseUint(number, 10, 32)
		switch {
		case err == nil && uid == 0:
			return ""
		case err != nil || name == "":
			return strangers
		}
		return numbered(uint32(uid))
	}
	return ""
}
