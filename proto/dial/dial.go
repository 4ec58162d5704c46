// Package dial connects a client, a node or a shim to a controller.
//
// Contract: Targets says which controllers to try, in order; Dial makes one
// lazy connection that goes to the first of them that answers, and moves on to
// another when that one goes away; Open makes calls that also leave a
// controller that is up and does not serve them. One that does not answer at
// all costs a quarter of a second, not the time of a connection that is given
// up: the next is dialled in parallel (RFC 8305). Two kinds of target exist: a
// unix socket, over which the kernel tells the controller who calls, and
// host:port over TCP, which is always TLS with certificates from the
// cluster's own authority: mutual, unless the host has munged say who calls, over the
// same TLS. There is no unprotected kind. Renew replaces
// a holder's own certificate in time. ListenUnix and PeerOf are the other end of a unix
// socket.
package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// DefaultTarget is where a controller listens on its own host.
const DefaultTarget = "unix:///run/gleaner/gctld.sock"

// Environment variables that say where the controllers are, which certificate to show
// them, and where munged speaks for users who have none.
const (
	EnvironmentController = "GLEANER_CONTROLLER"
	EnvironmentTLSDir     = "GLEANER_TLS_DIR"
	EnvironmentMunge      = "GLEANER_MUNGE_SOCKET"
)

// maxTargets bounds the list: a cluster has one, three or five controllers.
const maxTargets = 16

// maxSocketPath is the longest path of a unix socket (unix(7)).
const maxSocketPath = 107

// ErrTarget is returned when a target is neither unix:///PATH nor HOST:PORT.
var ErrTarget = errors.New("bad controller address")

// Targets returns the controllers to try, in order: those of the flag
// (comma-separated), else those of GLEANER_CONTROLLER, else those of SiteFile, else the
// sockets of this host.
func Targets(flag string) ([]string, error) {
	if targets := said(flag); len(targets) > 0 {
		return targets, nil
	}
	config, err := site()
	if err != nil {
		return nil, err
	}
	if len(config.Controllers) > 0 {
		return config.Controllers, nil
	}
	return hereTargets(strings.TrimPrefix(DefaultTarget, "unix://"), AgentSocket), nil
}

// DaemonTargets are those of a daemon that is told nothing else: what is for users is not
// for it.
func DaemonTargets() []string {
	if targets := said(""); len(targets) > 0 {
		return targets
	}
	return []string{DefaultTarget}
}

// said are the targets that somebody said: by the flag, else by the environment.
func said(flag string) []string {
	if targets := split(flag); len(targets) > 0 {
		return targets
	}
	return split(os.Getenv(EnvironmentController))
}

func split(list string) []string {
	var targets []string
	for target := range strings.SplitSeq(list, ",") {
		if target = strings.TrimSpace(target); target != "" {
			targets = append(targets, target)
		}
	}
	return targets
}

// Remote are those of the targets to which a certificate is shown.
func Remote(targets []string) []string {
	return slices.DeleteFunc(slices.Clone(targets), func(target string) bool { return strings.HasPrefix(target, "unix://") })
}

// Dial returns a connection to the first target that answers. It contacts
// nobody yet: the first call does. tlsDir holds ca.pem, cert.pem and key.pem
// for targets over TCP; "" means that of TLSDir, where ca.pem is enough if this host has
// munged.
func Dial(targets []string, tlsDir string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	addresses, needTLS, err := parseAll(targets)
	if err != nil {
		return nil, err
	}
	creds := &transportCredentials{}
	if needTLS {
		if creds, err = credentialsIn(tlsDir); err != nil {
			return nil, err
		}
	}
	static := manual.NewBuilderWithScheme("gleaner")
	static.InitialState(resolver.State{Addresses: addresses})
	return grpc.NewClient("gleaner:///controllers", append([]grpc.DialOption{
		grpc.WithResolvers(static),
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(dialAddress),
		grpc.WithAuthority(ServerName),
		grpc.WithChainUnaryInterceptor(explainCall),
		grpc.WithChainStreamInterceptor(explainStream),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(spec.MaxMessageBytes),
			grpc.MaxCallSendMsgSize(spec.MaxMessageBytes)),
		grpc.WithConnectParams(grpc.ConnectParams{
			// Short, so that a node is back soon after a controller is.
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// A stream on which nothing need come ends, with UNAVAILABLE, when the
		// controller hangs or is cut off.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
	}, options...)...)
}

// connectionWindow is what all calls together may have under way. gRPC gives it back when
// bytes come, not when they are read: nothing is held by it.
const connectionWindow = 4 << 20

// Window bounds what a controller may have sent in each call before it is read: who relays
// for others holds it for them. Otherwise gRPC raises it to megabytes on a quick connection.
// It raises neither window then, so that of the connection must be large.
func Window(bytes int32) []grpc.DialOption {
	return []grpc.DialOption{grpc.WithInitialWindowSize(bytes), grpc.WithInitialConnWindowSize(connectionWindow)}
}

func parseAll(targets []string) (addresses []resolver.Address, needTLS bool, err error) {
	if len(targets) == 0 {
		return nil, false, fmt.Errorf("%w: none given; use unix:///PATH or HOST:PORT", ErrTarget)
	}
	if len(targets) > maxTargets {
		return nil, false, fmt.Errorf("%w: %d given, at most %d make sense", ErrTarget, len(targets), maxTargets)
	}
	for _, target := range targets {
		network, address, err := parse(target)
		if err != nil {
			return nil, false, err
		}
		needTLS = needTLS || network == "tcp"
		addresses = append(addresses, resolver.Address{Addr: network + "!" + address})
	}
	return addresses, needTLS, nil
}

// parse tells what a target means: the network and the address for net.Dial.
func parse(target string) (network, address string, err error) {
	if path, ok := strings.CutPrefix(target, "unix://"); ok {
		if !filepath.IsAbs(path) {
			return "", "", fmt.Errorf("%w %q: the path must be absolute, as in unix:///run/gleaner/gctld.sock", ErrTarget, target)
		}
		if len(path) > maxSocketPath {
			return "", "", fmt.Errorf("%w %.160q: a socket's path has at most %d bytes, and this one %d", ErrTarget, target, maxSocketPath, len(path))
		}
		return "unix", path, nil
	}
	host, port, err := net.SplitHostPort(target)
	if err != nil || host == "" || port == "" || strings.ContainsAny(target, "/! ") {
		return "", "", fmt.Errorf("%w %.160q: use unix:///PATH or HOST:PORT", ErrTarget, target)
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return "", "", fmt.Errorf("%w %.160q: the port is a number from 1 to 65535", ErrTarget, target)
	}
	return "tcp", target, nil
}

func dialAddress(ctx context.Context, address string) (net.Conn, error) {
	network, rest, ok := strings.Cut(address, "!")
	if !ok {
		return nil, fmt.Errorf("%w %q", ErrTarget, address)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, rest)
}
