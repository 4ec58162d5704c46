package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/gleaner-hpc/gleaner/proto/finding"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// pinger is a controller that answers one question.
type pinger struct {
	pb.UnimplementedControllerServer
	answer *pb.PingResponse
}

func (p *pinger) Ping(context.Context, *pb.PingRequest) (*pb.PingResponse, error) {
	return p.answer, nil
}

func serve(t *testing.T, answer *pb.PingResponse) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.sock")
	listener, err := net.Listen("unix", path)
	must(t, err)
	server := grpc.NewServer()
	pb.RegisterControllerServer(server, &pinger{answer: answer})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return "unix://" + path
}

func contacted(t *testing.T, target string) []finding.Finding {
	t.Helper()
	return contact{target: target, tlsDir: t.TempDir()}.check(t.Context())
}

func TestController(t *testing.T) {
	target := serve(t, &pb.PingResponse{Peer: "c1", Role: "leader", Leader: "c1", Version: "v1", TimeMs: time.Now().UnixMilli()})
	found := contacted(t, target)
	want(t, found, "controller "+target, finding.OK, "c1 answers as leader, version v1")
	if len(found) != 1 {
		t.Errorf("a host's own clock was compared with itself: %+v", found)
	}
	target = serve(t, &pb.PingResponse{Peer: "c\x1b[2Jx", Role: "follower"})
	found = contacted(t, target)
	want(t, found, "controller "+target, finding.Failed, "answers as follower", "knows of no leader", "gcontrol ping")
	if strings.Contains(fmt.Sprint(found), "\x1b") {
		t.Error("what a controller says reaches the terminal")
	}
}

func TestNoController(t *testing.T) {
	dir := t.TempDir()
	dead := filepath.Join(dir, "dead.sock")
	listener, err := net.Listen("unix", dead)
	must(t, err)
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	must(t, listener.Close())
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for target, words := range map[string][]string{
		"unix://" + dir + "/none": {"there is no such socket", "systemctl start gctld"},
		"unix://" + dead:          {"the controller has died"},
		"unix://" + file:          {"connection refused"},
		"127.0.0.1":               {"bad controller address"},
		"nosuchhost.invalid:1":    {"the name nosuchhost.invalid is not found", "/etc/hosts"},
		closedPort(t):             {"nobody listens on the port", "systemctl status gctld"},
	} {
		want(t, contacted(t, target), "controller "+target, finding.Failed, words...)
	}
}

// closedPort is an address that nobody listens on while the test runs.
func closedPort(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { must(t, syscall.Close(fd)) })
	must(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := syscall.Getsockname(fd)
	must(t, err)
	return fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
}

// A controller that was stopped takes connections, by its kernel, and says
// nothing.
func TestSilentController(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.sock")
	listener, err := net.Listen("unix", path)
	must(t, err)
	defer listener.Close()
	want(t, contacted(t, "unix://"+path), "controller unix://"+path, finding.Failed, "says nothing", "journalctl -u gctld")
}

func TestPeers(t *testing.T) {
	c1 := &pb.Peer{Name: "c1", Voter: true, Reachable: true, Leader: true}
	c2 := &pb.Peer{Name: "c2", Address: "h2:1", Voter: true, Reachable: true}
	c3 := &pb.Peer{Name: "c3", Address: "h3:1", Voter: true, Reachable: true}
	dead := &pb.Peer{Name: "c3", Address: "h3:1", Voter: true, Problem: "it did not answer within 2s"}
	young := &pb.Peer{Name: "c4", Address: "h4:1", Reachable: true}
	const check = "controllers among themselves"
	for _, c := range []struct {
		peers  []*pb.Peer
		status finding.Status
		words  string
	}{
		{[]*pb.Peer{c1}, finding.OK, "no other to take over"},
		{[]*pb.Peer{c1, c2, c3}, finding.OK, "c1, c2, c3: 3 of 3 votes answer, 1 may fail"},
		{[]*pb.Peer{c1, c2, c3, young}, finding.OK, "3 of 3 votes"},
		{[]*pb.Peer{c1, c2}, finding.Warning, "gcontrol peer add"},
		{[]*pb.Peer{c1, c2, dead}, finding.Warning, "2 of 3 votes answer: none may fail"},
		{[]*pb.Peer{c1, dead}, finding.Failed, "no majority"},
	} {
		want(t, []finding.Finding{judgeMajority(check, c.peers)}, check, c.status, c.words)
	}
	found := judgePeers([]*pb.Peer{c1, c2, dead, young}, []error{nil, errors.New("no route to host"), nil, nil})
	want(t, found, "controller c2 at h2:1", finding.Failed, "cannot be reached from here: no route to host", "nft list ruleset")
	want(t, found, "controller c3 at h3:1", finding.Failed, "did not answer within 2s", "gcontrol peer remove c3")
	want(t, found, "controller c4 at h4:1", finding.Warning, "no vote yet")
	if len(found) != 3 {
		t.Errorf("%+v", found)
	}
}

func TestListen(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := listener.Addr().String()
	want(t, checkListen(t.Context(), "listen", address, true), "listen", finding.OK)
	want(t, checkListen(t.Context(), "listen", address, false), "listen", finding.Failed, "something else listens", "ss -ltnp")
	must(t, listener.Close())
	address = closedPort(t)
	want(t, checkListen(t.Context(), "listen", address, true), "listen", finding.Failed, "nobody listens on "+address)
	want(t, checkListen(t.Context(), "listen", address, false), "listen", finding.OK, "is free")
}

func TestSkew(t *testing.T) {
	at := time.Now()
	for _, c := range []struct {
		ahead, took time.Duration
		status      finding.Status
		words       string
	}{
		{0, 0, finding.OK, "0s ahead"},
		{1500 * time.Millisecond, time.Second, finding.OK, "1s ahead"}, // as far as one can tell
		{-3 * time.Second, 0, finding.Warning, "3s behind"},
		{-3 * time.Second, 8 * time.Second, finding.Warning, "7s behind this host's (to within 4s)"},
		{2 * time.Second, 8 * time.Second, finding.OK, "2s behind"},
		{2 * time.Hour, 0, finding.Failed, "2h0m0s ahead"},
	} {
		want(t, []finding.Finding{judgeSkew("clock", at.Add(c.ahead), at, at.Add(c.took))}, "clock", c.status, c.words)
	}
}
