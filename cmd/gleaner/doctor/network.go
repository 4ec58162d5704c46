package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	"github.com/gleaner-hpc/gleaner/proto/finding"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Bounds of the steps towards a controller; together they stay below the
// check's own. For an answer it is less than dial gives a connection to be made,
// so that silence is told as such.
const (
	lookupLimit  = 4 * time.Second
	connectLimit = 4 * time.Second
	answerLimit  = 4 * time.Second
	contactLimit = 20 * time.Second
)

// contact is a controller and the certificate with which it is spoken to.
type contact struct {
	target string
	tlsDir string // "" for a unix socket
}

// check goes to the controller step by step, so that the first that fails is
// told: name, port, who answers there.
func (c contact) check(ctx context.Context) []finding.Finding {
	check := "controller " + c.target
	if _, err := dial.Dial([]string{c.target}, c.tlsDir); errors.Is(err, dial.ErrTarget) {
		return []finding.Finding{finding.Bad(check, err.Error(), "no controller is found there", "correct it in GLEANER_CONTROLLER, --controller, or controllers of gnoded.toml")}
	}
	if bad := c.reach(ctx, check); bad != nil {
		return []finding.Finding{*bad}
	}
	return c.ping(ctx, check)
}

const meansUnreached = "nothing can be submitted or asked there; jobs that run continue; another controller may answer"

// reach makes a bare connection.
func (c contact) reach(ctx context.Context, check string) *finding.Finding {
	bad := func(seen, fix string) *finding.Finding {
		f := finding.Bad(check, seen, meansUnreached, fix)
		return &f
	}
	if path, isSocket := strings.CutPrefix(c.target, "unix://"); isSocket {
		return c.reachSocket(ctx, check, path)
	}
	host, _, err := net.SplitHostPort(c.target)
	if err != nil {
		return bad(err.Error(), "give HOST:PORT")
	}
	lookup, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(lookup, host)
	if err != nil {
		return bad(fmt.Sprintf("the name %s is not found: %v", host, err), "put it into the name service or /etc/hosts, or give the address: getent hosts "+host)
	}
	connect, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(connect, "tcp", c.target)
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return bad(fmt.Sprintf("%s (%s) is there, and nobody listens on the port", host, strings.Join(addresses, ", ")), "on that host: systemctl status gctld; listen in its gctld.toml must have this port")
	case err != nil:
		return bad(fmt.Sprintf("%s (%s) does not answer: %v", host, strings.Join(addresses, ", "), err), "see whether the host is up, and whether a firewall lets the port through: ping "+host+"; nft list ruleset")
	}
	_ = conn.Close()
	return nil
}

func (c contact) reachSocket(ctx context.Context, check, path string) *finding.Finding {
	start := "start it on this host: systemctl start gctld; or set GLEANER_CONTROLLER to where it is"
	var f finding.Finding
	connect, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	var dialer net.Dialer
	info, err := os.Lstat(path)
	if err == nil {
		var conn net.Conn
		if conn, err = dialer.DialContext(connect, "unix", path); err == nil {
			_ = conn.Close()
			return nil
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f = finding.Bad(check, "there is no such socket: no controller runs on this host, or it has another", meansUnreached, start)
	case errors.Is(err, fs.ErrPermission):
		f = finding.Bad(check, "you may not open that socket", meansUnreached, "ask its owner; gctld makes it for everybody: ls -l "+path)
	case errors.Is(err, unix.ECONNREFUSED) && info.Mode().Type() == fs.ModeSocket:
		f = finding.Bad(check, "the socket is there, and nobody listens: the controller has died", meansUnreached, start+"; journalctl -u gctld -n 50")
	default:
		f = finding.Bad(check, err.Error(), meansUnreached, start)
	}
	return &f
}

// ping asks the controller who it is.
func (c contact) ping(ctx context.Context, check string) []finding.Finding {
	connection, err := dial.Dial([]string{c.target}, c.tlsDir)
	if err != nil {
		return []finding.Finding{finding.Bad(check, err.Error(), meansUnreached, "see the line of the certificate; GLEANER_TLS_DIR, or tls_dir in gnoded.toml, names its directory")}
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	asked := time.Now()
	answer, err := pb.NewControllerClient(connection).Ping(ctx, &pb.PingRequest{})
	answered := time.Now()
	if err != nil {
		said := format.Printable(status.Convert(err).Message())
		if ctx.Err() != nil {
			said = fmt.Sprintf("it takes the connection and says nothing for %v: stopped, or held up by its disk", answerLimit)
		}
		return []finding.Finding{finding.Bad(check, said, meansUnreached, "on that host: gdoctor; journalctl -u gctld -n 50")}
	}
	seen := fmt.Sprintf("%s answers as %s, version %s, in %v", format.Printable(answer.Peer), format.Printable(answer.Role), format.Printable(answer.Version), answered.Sub(asked).Round(100*time.Microsecond))
	found := []finding.Finding{finding.Good(check, seen)}
	if answer.Leader == "" {
		found[0] = finding.Bad(check, seen+"; it knows of no leader", "nothing is accepted, started or changed until a majority of the controllers runs and sees each other", "gcontrol ping says which answer; start the others")
	}
	if answer.TimeMs > 0 && !strings.HasPrefix(c.target, "unix://") { // a socket's clock is this host's
		found = append(found, judgeSkew("clock of "+c.target, time.UnixMilli(answer.TimeMs), asked, answered))
	}
	// Several controllers have one policy, and once tells what is found of it.
	if config, err := pb.NewControllerClient(connection).ShowConfig(ctx, &pb.ShowConfigRequest{}); err == nil {
		found = append(found, checkTrustedRoot(config.GetPolicy(), time.Now())...)
	}
	return found
}

// checkListen looks whether an address of this controller is taken by it, when
// it runs, or free for it.
func checkListen(ctx context.Context, check, address string, running bool) []finding.Finding {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return []finding.Finding{finding.Bad(check, err.Error(), "gctld does not start", "give HOST:PORT as "+check+" in gctld.toml")}
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err == nil {
		_ = conn.Close()
	}
	switch {
	case err == nil && !running:
		return []finding.Finding{finding.Bad(check, "gctld does not run, and something else listens on "+address, "gctld does not start", "stop that program, ss -ltnp shows it, or give another "+check)}
	case err == nil:
		return []finding.Finding{finding.Good(check, "gctld listens on "+address)}
	case running:
		return []finding.Finding{finding.Bad(check, fmt.Sprintf("gctld runs, and nobody listens on %s: %v", address, err), "other hosts do not reach this controller", "was it started with this configuration? systemctl restart gctld; is the address one of this host's? ip -br address")}
	}
	return []finding.Finding{finding.Good(check, address+" is free for gctld, which does not run")}
}
