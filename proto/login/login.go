// Package login is the agent of a login host or of a node: every user of that host asks the
// controllers through it, without a certificate of their own.
//
// Contract: who calls is the kernel's word about the process that connected (SO_PEERCRED):
// its user at that moment, whoever holds the connection later, as numbers are outside of
// all user namespaces. The agent adds the name that this host has for that number, and
// nothing that the caller says about itself goes further. The controllers believe the agent
// as far as their policy lets this host vouch. The agent has no rights of its own: it shows
// the host's certificate, and decides nothing.
//
// Each user has a connection to the controllers of their own, and bounds, so that nobody
// keeps others from asking.
package login

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/proto/budget"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	"github.com/gleaner-hpc/gleaner/proto/passon"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// DefaultSocket is where an agent listens.
const DefaultSocket = dial.AgentSocket

// Metadata by which an agent says who calls.
const (
	KeyUID  = "gleaner-login-uid"  // decimal
	KeyUser = "gleaner-login-user" // login name
)

// Bounds of one user, and of all: what an agent holds is not the users' memory.
const (
	maxConnections   = 128  // of one user
	maxCalls         = 64   // of one user, under way
	maxAll           = 4096 // connections of all users
	greetingLimit    = 10 * time.Second
	connectionWindow = 256 << 10
	callWindow       = 64 << 10
	connectionBuffer = 4 << 10 // what each connection reads and writes into
	maxHeaderBytes   = 4 << 10 // of one request
	// What is held of answers that have not been read: of one user, of lists and of other
	// answers each, one of the largest, and one that comes; and of all who have some already.
	heldAnswers    = 2 * spec.MaxMessageBytes
	allHeldAnswers = 16 * spec.MaxMessageBytes
	idleAfter      = 30 * time.Second // a user's connection to the controllers is closed
	// unheardAfter: a caller that gives up after waiting so long for a first word will ask
	// again, and then another controller, because this one may hang.
	unheardAfter     = time.Second
	controllerPrefix = "/gleaner.v1.Controller/"
)

// answerPatience is how long an answer waits until others of its user have been read.
var answerPatience = 10 * time.Second

// renewEvery is how often it is looked whether the host's certificate is to be renewed.
var renewEvery = 10 * time.Minute

// Agent is one agent.
type Agent struct {
	Controllers []string // targets of dial.Open, HOST:PORT
	TLSDir      string   // holds the host's ca.pem, cert.pem and key.pem
	Log         *slog.Logger

	names   names
	answers budget.Budget // as long as nobody has read them
	mu      sync.Mutex
	users   map[uint32]*person
	all     int // connections
}

// person is what one user has open.
type person struct {
	connections, calls int
	controllers        *dial.Controllers // nil while it is not needed
	idle               *time.Timer
}

// Serve serves a listener of unix sockets (dial.ListenUnix) until ctx ends.
func (a *Agent) Serve(ctx context.Context, listener net.Listener) error {
	a.answers.Each, a.answers.All = heldAnswers, allHeldAnswers
	server := grpc.NewServer(
		grpc.Creds(&credentialsOf{agent: a}),
		grpc.ForceServerCodecV2(passon.Codec{}),
		grpc.UnknownServiceHandler(a.handle),
		grpc.ConnectionTimeout(greetingLimit),
		grpc.MaxRecvMsgSize(spec.MaxPieceBytes),
		grpc.MaxSendMsgSize(spec.MaxMessageBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ReadBufferSize(connectionBuffer),
		grpc.SharedWriteBuffer(true),
		grpc.MaxConcurrentStreams(maxCalls),
		grpc.InitialConnWindowSize(connectionWindow),
		grpc.InitialWindowSize(callWindow),
	)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	err := server.Serve(listener)
	a.closeAll()
	if ctx.Err() != nil || errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// handle passes one call on, whatever it is.
func (a *Agent) handle(_ any, incoming grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(incoming)
	if !ok || !strings.HasPrefix(method, controllerPrefix) {
		return status.Errorf(codes.Unimplemented, "%s cannot be called through the agent of a host", method)
	}
	from, known := peer.FromContext(incoming.Context())
	if !known {
		return status.Error(codes.Unauthenticated, "it is not known who calls")
	}
	who, known := from.AuthInfo.(caller)
	if !known {
		return status.Error(codes.Unauthenticated, "it is not known who calls")
	}
	controllers, release, err := a.take(who.uid)
	if err != nil {
		return err
	}
	defer release()
	name, err := a.names.of(incoming.Context(), who.uid)
	if err != nil {
		return err
	}
	// A context without what the caller sent: only this host's word goes further.
	ctx := metadata.NewOutgoingContext(incoming.Context(), metadata.Pairs(KeyUID, strconv.FormatUint(uint64(who.uid), 10), KeyUser, name))
	begun := time.Now()
	heard, err := passon.Stream(ctx, controllers, method, incoming, passon.Room{Budget: &a.answers, Who: strconv.FormatUint(uint64(who.uid), 10), Patience: answerPatience})
	if !heard && incoming.Context().Err() != nil && time.Since(begun) > unheardAfter {
		controllers.Leave()
	}
	return err
}

// connected takes a place among the connections of a user.
func (a *Agent) connected(uid uint32) (release func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.person(uid)
	if u.connections >= maxConnections || a.all >= maxAll {
		a.forget(uid, u)
		return nil, fmt.Errorf("user %d has %d connections open, all users together %d", uid, u.connections, a.all)
	}
	u.connections++
	a.all++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		u.connections--
		a.all--
		a.forget(uid, u)
	}, nil
}

// take takes a place among the calls of a user, and gives the user's connection to the
// controllers.
func (a *Agent) take(uid uint32) (controllers *dial.Controllers, release func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.person(uid)
	if u.calls >= maxCalls {
		return nil, nil, status.Errorf(codes.Unavailable, "user %d has %d requests under way on this host: wait until some are answered, or end some", uid, u.calls)
	}
	if u.controllers == nil {
		if u.controllers, err = dial.Open(a.Controllers, a.TLSDir, dial.Window(callWindow)...); err != nil {
			u.controllers = nil
			a.forget(uid, u)
			return nil, nil, status.Errorf(codes.Unavailable, "the agent of this host cannot ask a controller: %v", err)
		}
	}
	if u.idle != nil {
		u.idle.Stop()
	}
	u.calls++
	return u.controllers, func() { a.done(uid, u) }, nil
}

// done ends a call. The user's next one is quicker while the connection is open.
func (a *Agent) done(uid uint32, u *person) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if u.calls--; u.calls > 0 {
		return
	}
	u.idle = time.AfterFunc(idleAfter, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if u.calls == 0 && u.controllers != nil {
			_ = u.controllers.Close()
			u.controllers = nil
		}
		a.forget(uid, u)
	})
}

func (a *Agent) person(uid uint32) *person {
	if a.users == nil {
		a.users = make(map[uint32]*person)
	}
	u := a.users[uid]
	if u == nil {
		u = &person{}
		a.users[uid] = u
	}
	return u
}

// forget drops a user who has nothing open.
func (a *Agent) forget(uid uint32, u *person) {
	if u.connections == 0 && u.calls == 0 && u.controllers == nil && a.users[uid] == u {
		delete(a.users, uid)
	}
}

func (a *Agent) closeAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, u := range a.users {
		if u.controllers != nil {
			_ = u.controllers.Close()
			u.controllers = nil
		}
	}
}

// Renew renews the host's certificate in time until ctx ends; the key stays.
func (a *Agent) Renew(ctx context.Context) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		renewed, err := dial.Renew(a.TLSDir, time.Now(), 0, dial.AskRenewal(ctx, a.Controllers, a.TLSDir))
		switch {
		case err != nil && ctx.Err() == nil:
			a.Log.Warn("this host's certificate could not be renewed; it is tried again. See that the controller with the authority's key runs, or issue one with gctld cert there", "error", err)
		case renewed:
			a.Log.Info("this host's certificate was renewed")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
