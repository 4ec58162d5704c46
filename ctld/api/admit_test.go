package api

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// gate is a server whose clock a test moves, and what comes to its door.
type gate struct {
	*Server
	*ledger
	now time.Time
}

func newGate(t *testing.T) *gate {
	l := &ledger{t: t, state: state.New(), sessions: session.NewRegistry(func(string) {})}
	g := &gate{ledger: l, now: time.Unix(1_000_000, 0)}
	g.Server = NewServer(l, l, Options{Version: "test", Logger: slog.New(slog.DiscardHandler)})
	g.rates.now = func() time.Time { return g.now }
	return g
}

func (g *gate) limit(t *testing.T, rate policy.RateLimit) {
	t.Helper()
	site := *policy.Default()
	site.Rate = rate
	if result, err := g.Propose(t.Context(), state.ApplyPolicy{Policy: site}, state.RequestID{}); err != nil || result.Refused != nil {
		t.Fatal(err, result.Refused)
	}
	g.now = g.now.Add(readEvery)
}

// knock asks with a connection and metadata; end ends the request.
func (g *gate) knock(shown any, method string, pairs ...string) (end func(), err error) {
	remote := &peer.Peer{}
	switch info := shown.(type) {
	case peerInfo:
		remote.AuthInfo = info
	case linkInfo:
		remote.AuthInfo = info
	}
	ctx, cancel := context.WithCancel(peer.NewContext(context.Background(), remote))
	_, err = g.admit(ctx, &tap.Info{FullMethodName: method, Header: metadata.Pairs(pairs...)})
	return cancel, err
}

// many asks until it is refused and returns how often it was not.
func (g *gate) many(t *testing.T, shown any, method string, pairs ...string) int {
	t.Helper()
	for asked := range 10_000 {
		end, err := g.knock(shown, method, pairs...)
		end()
		if asked%100 == 99 {
			g.settle(t)
		}
		if status.Code(err) == codes.ResourceExhausted {
			return asked
		}
		if err != nil {
			t.Fatalf("request %d: %v", asked, err)
		}
	}
	return 10_000
}

// settle waits until what is over has given its place back, in a goroutine of
// its own.
func (g *gate) settle(t *testing.T) {
	t.Helper()
	prototest.Eventually(t, "all places are free", func() bool {
		g.places.mu.Lock()
		defer g.places.mu.Unlock()
		return len(g.places.taken) == 0
	})
}

func local(uid uint32) peerInfo { return peerInfo{uid: uid, person: personOf(uid)} }

const (
	submitting = pb.Controller_Submit_FullMethodName
	listing    = pb.Controller_ListJobs_FullMethodName
)

// TestRateOfOneUser: a burst, then so many each period; nobody else waits, and
// a new policy is followed.
func TestRateOfOneUser(t *testing.T) {
	g := newGate(t)
	if got := g.many(t, peerInfo{uid: 1000, person: "user 1000"}, submitting); got != policy.DefaultRateBucket {
		t.Errorf("by default %d at once, want %d", got, policy.DefaultRateBucket)
	}
	g.limit(t, policy.RateLimit{Bucket: 7, Refill: 3, PeriodS: 2})
	one, other := peerInfo{uid: 1000, person: "user 1000"}, peerInfo{uid: 1001, person: "user 1001"}
	if got := g.many(t, one, submitting); got != 7 {
		t.Errorf("%d at once, want 7", got)
	}
	end, err := g.knock(one, listing)
	end()
	var told time.Duration
	for _, detail := range status.Convert(err).Details() {
		if retry, ok := detail.(*errdetails.RetryInfo); ok {
			told = retry.GetRetryDelay().AsDuration()
		}
	}
	if told < leastWait || told > 2*time.Second {
		t.Errorf("refused with %v, which says to wait %v", err, told)
	}
	if got := g.many(t, other, listing); got != 7 {
		t.Errorf("another user: %d at once, want 7", got)
	}
	g.now = g.now.Add(2 * time.Second)
	if got := g.many(t, one, pb.Controller_Follow_FullMethodName); got != 3 {
		t.Errorf("after a period %d, want 3", got)
	}
	g.now = g.now.Add(time.Hour)
	if got := g.many(t, one, pb.Controller_Attach_FullMethodName); got != 7 {
		t.Errorf("after an hour %d, want 7", got)
	}
	g.limit(t, policy.RateLimit{Off: true})
	for range 20 {
		end, err := g.knock(one, submitting)
		end()
		g.settle(t)
		if err != nil {
			t.Fatalf("without a limit: %v", err)
		}
	}
}

// TestWhomARequestCountsFor: a person has one bucket, on whatever way a request
// comes; root, nodes and controllers have none.
func TestWhomARequestCountsFor(t *testing.T) {
	g := newGate(t)
	g.limit(t, policy.RateLimit{Bucket: 5, Refill: 1, PeriodS: 3600})
	link := linkInfo{name: "c2"}
	inJob := g.runningJob(t, fuzzUser)
	vouching := []string{metadataJob, inJob, metadataUID, strconv.Itoa(fuzzUser), metadataNode, "n1"}
	user := numbered(fuzzUser)
	for _, c := range []struct {
		name, want string
		shown      any
		method     string
		metadata   []string
	}{
		{"socket", user, peerInfo{uid: fuzzUser, person: user}, submitting, nil},
		{"other controller", user, link, submitting, []string{metadataCaller, "uid " + strconv.Itoa(fuzzUser) + " ada"}},
		{"in a job", user, peerInfo{}, submitting, vouching},
		{"in a job, through another controller", user, link, submitting, append([]string{metadataCaller, "node n1", metadataTrusted, "yes"}, vouching...)},
		{"in a job, so says a user", user, peerInfo{uid: fuzzUser, person: user}, submitting, append([]string{}, metadataJob, inJob, metadataUID, "0", metadataNode, "n1")},
		{"in a job of somebody else", "", peerInfo{}, submitting, []string{metadataJob, inJob, metadataUID, "77", metadataNode, "n1"}},
		{"in no job", "", peerInfo{}, submitting, []string{metadataJob, "99.1", metadataUID, strconv.Itoa(fuzzUser), metadataNode, "n1"}},
		{"on another node", "", peerInfo{}, submitting, []string{metadataJob, inJob, metadataUID, strconv.Itoa(fuzzUser), metadataNode, "n9"}},
		{"root", "", local(0), submitting, nil},
		{"root through another controller", "", link, submitting, []string{metadataCaller, "uid 0 root"}},
		{"node", "", link, pb.NodeLink_Session_FullMethodName, []string{metadataCaller, "node n1", metadataTrusted, "yes"}},
		{"controller", "", link, listing, []string{metadataCaller, "controller c2"}},
		{"user who plays a node", user, peerInfo{uid: fuzzUser, person: user}, pb.NodeLink_Session_FullMethodName, nil},
		{"nobody's number", strangers, local(3_999_999_999), submitting, nil},
		{"another such number", strangers, local(3_999_999_998), submitting, nil},
		{"such a number through another controller", strangers, link, submitting, []string{metadataCaller, "uid 3999999997 "}},
	} {
		remote := &peer.Peer{}
		switch info := c.shown.(type) {
		case peerInfo:
			remote.AuthInfo = info
		case linkInfo:
			remote.AuthInfo = info
		}
		header := metadata.Pairs(c.metadata...)
		if got := g.countsFor(peer.NewContext(context.Background(), remote), &tap.Info{FullMethodName: c.method, Header: header}); got != c.want {
			t.Errorf("%s: counts for %q, want %q", c.name, got, c.want)
		}
	}
	if got := g.many(t, peerInfo{uid: fuzzUser, person: user}, submitting); got != 5 {
		t.Errorf("on the socket %d, want 5", got)
	}
	if got := g.many(t, peerInfo{}, submitting, vouching...); got != 0 {
		t.Errorf("from inside a job %d more, want none", got)
	}
}

// runningJob is a job of a user that runs on n1, as JOB.EPOCH.
func (g *gate) runningJob(t *testing.T, uid uint32) string {
	t.Helper()
	apply := func(command state.Command) state.Result {
		result, err := g.Propose(t.Context(), command, state.RequestID{})
		if err != nil || result.Refused != nil {
			t.Fatal(err, result.Refused)
		}
		return result
	}
	apply(state.RegisterNode{Name: "n1", Inventory: state.Inventory{CPUs: 4, MemoryBytes: 1 << 30, BootID: "b"}})
	job := apply(state.SubmitJob{Owner: state.Owner{UID: uid, User: "ada"}, Script: []byte("#!/bin/sh\n"), Spec: state.Spec{TimeLimitS: 60, MemoryPerNode: 1 << 20}}).JobID
	apply(state.PlaceJobs{Starts: []state.StartOrder{{Job: job, Partition: "main", Allocs: []state.AllocOrder{{Node: "n1", CPUs: []uint32{0}, MemoryBytes: 1 << 20, Tasks: 1}}}}})
	return strconv.Itoa(int(job)) + ".1"
}

// TestRateTable: as many users are told apart as the table has places; who has
// not asked for the longest time is forgotten first.
func TestRateTable(t *testing.T) {
	g := newGate(t)
	g.limit(t, policy.RateLimit{Bucket: 2, Refill: 1, PeriodS: 3600, Table: 16})
	for i := range 100 {
		if got := g.many(t, peerInfo{person: numbered(uint32(2000 + i))}, listing); got != 2 {
			t.Fatalf("user %d: %d, want 2", i, got)
		}
	}
	if len(g.rates.buckets) != 16 || g.rates.recent.Len() != 16 {
		t.Errorf("%d users in a table of 16", len(g.rates.buckets))
	}
	if got := g.many(t, peerInfo{person: numbered(2099)}, listing); got != 0 {
		t.Errorf("who asked last is forgotten: %d", got)
	}
}

// TestRequestsPerUser: what one user has under way is bounded, until some of it
// is over; others', root's, streams of changes and sessions are not counted with
// it, and each has a bound.
func TestRequestsPerUser(t *testing.T) {
	g := newGate(t)
	g.limit(t, policy.RateLimit{Off: true})
	one := peerInfo{uid: 1000, person: "user 1000"}
	for method, limit := range map[string]int{submitting: maxRequestsPerUser, pb.Controller_Follow_FullMethodName: maxFollowersPerUser, pb.Controller_Attach_FullMethodName: maxSessionsPerUser} {
		var end func()
		for i := range limit {
			var err error
			if end, err = g.knock(one, method); err != nil {
				t.Fatalf("%s %d: %v", method, i, err)
			}
		}
		if _, err := g.knock(one, method); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: one too many: %v", method, err)
		}
		for _, other := range []peerInfo{{uid: 1001, person: "user 1001"}, {}} {
			if _, err := g.knock(other, method); err != nil {
				t.Errorf("%s of %+v: %v", method, other, err)
			}
		}
		end()
		// It comes back in a goroutine of its own.
		prototest.Eventually(t, "a request that is over gives its place back", func() bool {
			end, err := g.knock(one, method)
			if err == nil {
				end()
			}
			return err == nil
		})
	}
}
