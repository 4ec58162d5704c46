package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/passon"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// controller notes who asks, and what else was sent.
type controller struct {
	pb.UnimplementedControllerServer
	mu   sync.Mutex
	seen []metadata.MD
	hold chan struct{} // followers stay until it is closed

	listed []byte // what ListJobs answers
}

func (c *controller) note(ctx context.Context) {
	md, _ := metadata.FromIncomingContext(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, md)
}

func (c *controller) Ping(ctx context.Context, _ *pb.PingRequest) (*pb.PingResponse, error) {
	c.note(ctx)
	return &pb.PingResponse{Peer: "c1"}, nil
}

func (c *controller) Submit(ctx context.Context, _ *pb.SubmitRequest) (*pb.SubmitResponse, error) {
	c.note(ctx)
	return nil, status.Error(codes.InvalidArgument, "no such partition")
}

func (c *controller) ListJobs(_ *pb.ListJobsRequest, stream grpc.ServerStreamingServer[pb.ListJobsResponse]) error {
	return stream.SendMsg(passon.Of(c.listed))
}

func (c *controller) Follow(_ *pb.FollowRequest, stream grpc.ServerStreamingServer[pb.Event]) error {
	if err := stream.Send(&pb.Event{Index: 1}); err != nil {
		return err
	}
	select {
	case <-c.hold:
	case <-stream.Context().Done():
	}
	return nil
}

// last is who asked last, as "uid name".
func (c *controller) last() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.seen) == 0 {
		return ""
	}
	md := c.seen[len(c.seen)-1]
	return strings.Join(md.Get(KeyUID), ",") + " " + strings.Join(md.Get(KeyUser), ",")
}

// started is an agent before a controller; its socket is open to all.
func started(t *testing.T) (c *controller, socket string) {
	t.Helper()
	c, _, socket = startedAgent(t)
	return c, socket
}

func startedAgent(t *testing.T) (c *controller, agent *Agent, socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "login-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c = &controller{hold: make(chan struct{})}
	above, err := net.Listen("unix", filepath.Join(dir, "c"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(passon.Codec{}))
	pb.RegisterControllerServer(server, c)
	go func() { _ = server.Serve(above) }()
	t.Cleanup(server.Stop)

	socket = filepath.Join(dir, "agent")
	listener, err := dial.ListenUnix(socket, "socket")
	if err != nil {
		t.Fatal(err)
	}
	agent = &Agent{Controllers: []string{"unix://" + filepath.Join(dir, "c")}, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	// The numbers of these tests have names, whatever this machine calls them.
	agent.names.lookup = func(uid string) (*user.User, error) {
		if uid == "20079" {
			return nil, user.UnknownUserError(uid)
		}
		return &user.User{Uid: uid, Username: "u" + uid}, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- agent.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the agent ended with %v", err)
		}
	})
	return c, agent, socket
}

func client(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	conn, err := dial.Dial([]string{"unix://" + socket}, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestCallsArePassedOn: a call arrives with the kernel's word about its caller, and with
// nothing that the caller says; the answer comes back as it was.
func TestCallsArePassedOn(t *testing.T) {
	c, socket := started(t)
	conn := client(t, socket)
	ctx, cancel := context.WithTimeout(t.Context(), prototest.Patience)
	defer cancel()
	forged := metadata.NewOutgoingContext(ctx, metadata.Pairs(KeyUID, "0", KeyUser, "root", "gleaner-caller", "uid 0 root", "gleaner-job", "1.1", "gleaner-uid", "0"))
	answer, err := pb.NewControllerClient(conn).Ping(forged, &pb.PingRequest{})
	if err != nil || answer.GetPeer() != "c1" {
		t.Fatalf("answered %v, %v", answer, err)
	}
	me := fmt.Sprintf("%d u%[1]d", os.Geteuid())
	if got := c.last(); got != me {
		t.Errorf("the controller hears that %q asks, not %q", got, me)
	}
	for key := range c.seen[0] {
		if strings.HasPrefix(key, "gleaner-") && key != KeyUID && key != KeyUser {
			t.Errorf("the caller's own %s was passed on", key)
		}
	}
	_, err = pb.NewControllerClient(conn).Submit(ctx, &pb.SubmitRequest{})
	if status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() != "no such partition" {
		t.Errorf("an error came back as %v", err)
	}
	// A node's connection is no user's.
	session, err := pb.NewNodeLinkClient(conn).Session(ctx)
	if err == nil {
		_, err = session.Recv()
	}
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("a session of a node: %v", err)
	}
}

// TestNamesOfThisHost: the name service is asked as the host has it.
func TestNamesOfThisHost(t *testing.T) {
	if found, err := lookupID("0"); err != nil || found.Username != "root" {
		t.Errorf("root is %v, %v", found, err)
	}
	var unknown user.UnknownUserError
	if found, err := lookupID("3999999999"); !errors.As(err, &unknown) {
		t.Errorf("nobody is %v, %v", found, err)
	}
}

// TestOneUserHasBounds: a user with too many calls under way is refused, with the remedy.
func TestOneUserHasBounds(t *testing.T) {
	c, socket := started(t)
	ctx, cancel := context.WithTimeout(t.Context(), prototest.Patience)
	defer cancel()
	var last error
	for range maxCalls + 1 {
		stream, err := pb.NewControllerClient(client(t, socket)).Follow(ctx, &pb.FollowRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		last = err
	}
	if status.Code(last) != codes.Unavailable || !strings.Contains(status.Convert(last).Message(), "wait until") {
		t.Errorf("one call more than %d: %v", maxCalls, last)
	}
	close(c.hold)
}

// TestWhoConnects: the user that counts is that of the process which connected, when it
// did: in a user namespace, through a program that is setuid, and whoever gets the
// connection afterwards.
func TestWhoConnects(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it acts as several users")
	}
	c, socket := started(t)
	dir := filepath.Dir(socket)
	program, setuid := filepath.Join(dir, "program"), filepath.Join(dir, "setuid")
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{program, setuid} {
		if out, err := exec.Command("install", "-m", "755", own, path).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	if err := errors.Join(os.Chown(setuid, 20072, 20072), os.Chmod(setuid, 0o4755|os.ModeSetuid)); err != nil {
		t.Fatal(err)
	}
	as := func(uid uint32) *syscall.SysProcAttr {
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	inside := as(0)
	inside.Cloneflags = syscall.CLONE_NEWUSER
	inside.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: 20073, Size: 1}}
	inside.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: 20073, Size: 1}}
	for _, one := range []struct {
		what, program string
		as            *syscall.SysProcAttr
		want          string
	}{
		{"another user", program, as(20071), "20071 u20071"},
		{"root", program, as(0), "0 u0"},
		{"a program that is another user's, setuid", setuid, as(20071), "20072 u20072"},
		{"root of a user namespace", program, inside, "20073 u20073"},
	} {
		if out, err := runChild(one.program, "call "+socket, one.as, nil); err != nil {
			t.Errorf("%s: %v %s", one.what, err, out)
		}
		if got := c.last(); got != one.want {
			t.Errorf("%s: the controller hears that %q asks, not %q", one.what, got, one.want)
		}
	}
	before := c.last()
	if out, err := runChild(program, "call "+socket, as(20079), nil); err == nil || !strings.Contains(out, "has no account on this host") {
		t.Errorf("a number without an account: %v %s", err, out)
	}
	if got := c.last(); got != before {
		t.Errorf("a number without an account came as %q", got)
	}
	theirs := passedConnection(t, program, socket, as(20071))
	callOver(t, theirs)
	if got := c.last(); got != "20071 u20071" {
		t.Errorf("over a connection that 20071 made and gave to root %q asks", got)
	}
}

// passedConnection is a connection that another user makes, and gives away.
func passedConnection(t *testing.T, program, socket string, as *syscall.SysProcAttr) net.Conn {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := os.NewFile(uintptr(pair[0]), "mine"), os.NewFile(uintptr(pair[1]), "theirs")
	defer mine.Close()
	defer theirs.Close()
	if out, err := runChild(program, "give "+socket, as, theirs); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	buffer, rights := make([]byte, 1), make([]byte, 64)
	_, n, _, _, err := unix.Recvmsg(pair[0], buffer, rights, 0)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d messages, %v", len(messages), err)
	}
	descriptors, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(descriptors[0]), "connection")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func callOver(t *testing.T, conn net.Conn) {
	t.Helper()
	once := make(chan net.Conn, 1)
	once <- conn
	over, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(plain{}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			select {
			case conn := <-once:
				return conn, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer over.Close()
	ctx, cancel := context.WithTimeout(t.Context(), prototest.Patience)
	defer cancel()
	if _, err := pb.NewControllerClient(over).Ping(ctx, &pb.PingRequest{}); err != nil {
		t.Fatal(err)
	}
}

// childWords says what this program does in place of tests.
const childWords = "LOGIN_TEST_CHILD"

func TestMain(m *testing.M) {
	if words := os.Getenv(childWords); words != "" {
		os.Exit(child(words))
	}
	os.Exit(m.Run())
}

func runChild(program, words string, as *syscall.SysProcAttr, extra *os.File) (string, error) {
	command := exec.Command(program)
	command.Env = []string{childWords + "=" + words}
	command.Dir = "/"
	command.SysProcAttr = as
	if extra != nil {
		command.ExtraFiles = []*os.File{extra}
	}
	out, err := command.CombinedOutput()
	return string(out), err
}

func child(words string) int {
	verb, socket, _ := strings.Cut(words, " ")
	var err error
	switch verb {
	case "call":
		err = childCalls(socket)
	case "give":
		err = childGives(socket)
	default:
		err = errors.New("what is " + strconv.Quote(words))
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func childCalls(socket string) error {
	conn, err := dial.Dial([]string{"unix://" + socket}, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err = pb.NewControllerClient(conn).Ping(ctx, &pb.PingRequest{})
	return err
}

func childGives(socket string) error {
	descriptor, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	if err := unix.Connect(descriptor, &unix.SockaddrUnix{Name: socket}); err != nil {
		return err
	}
	return unix.Sendmsg(3, []byte{1}, unix.UnixRights(descriptor), nil, 0)
}
