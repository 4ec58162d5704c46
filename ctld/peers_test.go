package ctld

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/pki"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// testCluster is several controllers in one process, on loopback.
type testCluster struct {
	t       testing.TB
	dir     string
	configs map[string]Config
	servers map[string]*Server
	conns   map[string]*grpc.ClientConn
	log     func(name string) *slog.Logger // nil: the test's
}

// startCluster starts n controllers, the first of which begins the cluster and
// the others join it.
func startCluster(t testing.TB, n int, change ...func(*Config)) *testCluster {
	t.Helper()
	c := newTestCluster(t)
	c.grow(n, change...)
	return c
}

func newTestCluster(t testing.TB) *testCluster {
	t.Helper()
	return &testCluster{t: t, dir: shortDir(t), configs: make(map[string]Config), servers: make(map[string]*Server), conns: make(map[string]*grpc.ClientConn)}
}

func (c *testCluster) grow(n int, change ...func(*Config)) {
	c.t.Helper()
	for i := range n {
		name := fmt.Sprintf("c%d", i+1)
		c.prepare(name, change...)
		c.start(name)
		if i > 0 {
			c.add(name)
		}
	}
}

// prepare makes the configuration of a controller, and its certificates.
func (c *testCluster) prepare(name string, change ...func(*Config)) {
	c.t.Helper()
	config := DefaultConfig()
	config.Name, config.ElectionTimeout = name, "10s" // a busy machine elects nobody by chance
	config.DataDir, config.Socket = filepath.Join(c.dir, name), filepath.Join(c.dir, name+".s")
	config.PeerListen = freeAddress(c.t)
	for _, f := range change {
		f(&config)
	}
	if len(c.configs) > 0 {
		config.Join = true
		config.Certificates = c.certificates(pki.Controller, name)
	}
	c.configs[name] = config
}

// certificates issues them on the first controller.
func (c *testCluster) certificates(kind pki.Kind, name string) string {
	c.t.Helper()
	authority, err := pki.Open(PKIDir(c.configs["c1"].DataDir))
	if err != nil {
		c.t.Fatal(err)
	}
	out := filepath.Join(c.dir, "certificates-"+name)
	if err := authority.WriteBundle(kind, name, out); err != nil {
		c.t.Fatal(err)
	}
	prototest.Eventually(c.t, "every controller knows of a node that is admitted", func() bool {
		known := 0
		for _, server := range c.servers {
			for one := range server.cluster.View().Certificates {
				if one.Name == name {
					known++
					break
				}
			}
		}
		return kind != pki.Node || known == len(c.servers)
	})
	return out
}

func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func (c *testCluster) start(name string) {
	c.t.Helper()
	log := testLog(c.t)
	if c.log != nil {
		log = c.log(name)
	}
	c.servers[name] = startLogging(c.t, c.configs[name], log)
	if c.conns[name] == nil {
		c.conns[name] = connectTo(c.t, "unix://"+c.configs[name].Socket, "")
	}
}

func (c *testCluster) stop(name string) {
	c.servers[name].Stop()
	delete(c.servers, name)
}

func (c *testCluster) client(name string) pb.ControllerClient {
	return pb.NewControllerClient(c.conns[name])
}

// names are the controllers that run.
func (c *testCluster) names() []string {
	var names []string
	for name := range c.servers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// add adds a controller, through any of the others.
func (c *testCluster) add(name string) {
	c.t.Helper()
	request := &pb.AddPeerRequest{Name: name, Address: c.configs[name].PeerListen}
	c.retry("add "+name, func(ctx context.Context) error {
		_, err := c.client(c.other(name)).AddPeer(ctx, request)
		return err
	})
	c.eventually(name+" votes", func() bool {
		list, err := c.client(c.other(name)).ListPeers(soon(c.t), &pb.ListPeersRequest{})
		return err == nil && slices.ContainsFunc(list.GetPeers(), func(p *pb.Peer) bool { return p.GetName() == name && p.GetVoter() })
	})
}

func (c *testCluster) other(name string) string {
	for _, other := range c.names() {
		if other != name {
			return other
		}
	}
	c.t.Fatal("no other controller")
	return ""
}

// retry asks again while a controller says that it cannot answer now.
func (c *testCluster) retry(what string, ask func(context.Context) error) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := ask(soon(c.t))
		if err == nil {
			return
		}
		if status.Code(err) != codes.Unavailable || time.Now().After(deadline) {
			c.t.Fatalf("%s: %v", what, err)
		}
	}
}

func (c *testCluster) eventually(what string, so func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// leader waits for one that leads and answers.
func (c *testCluster) leader() string {
	c.t.Helper()
	leader := ""
	c.eventually("one leads", func() bool {
		for name, server := range c.servers {
			if server.api != nil && server.cluster.Confirm(soon(c.t)) == nil {
				leader = name
				return true
			}
		}
		return false
	})
	return leader
}

// submit submits through one controller, again and again with the same
// request id until it is answered.
func (c *testCluster) submit(through string, request *pb.SubmitRequest) uint32 {
	c.t.Helper()
	var id uint32
	c.retry("submit through "+through, func(ctx context.Context) error {
		answer, err := c.client(through).Submit(ctx, request)
		id = answer.GetJobId()
		return err
	})
	return id
}

func (c *testCluster) list(through string) (jobs []*pb.Job) {
	c.t.Helper()
	c.retry("list through "+through, func(context.Context) (err error) {
		jobs, err = tryList(c.t, c.conns[through], &pb.ListJobsRequest{Filter: all()})
		return err
	})
	return jobs
}

func TestAnyPeerServes(t *testing.T) {
	c := startCluster(t, 3)
	told := make(map[uint32]bool)
	for range 3 {
		for _, name := range c.names() {
			told[c.submit(name, job(func(r *pb.SubmitRequest) { r.Spec.Hold = true }))] = true
		}
		leader := c.leader()
		c.stop(leader)
		for _, name := range c.names() {
			told[c.submit(name, job(func(r *pb.SubmitRequest) { r.Spec.Hold = true }))] = true
			if jobs := c.list(name); len(jobs) != len(told) {
				t.Fatalf("%s lists %d jobs, and %d were accepted", name, len(jobs), len(told))
			}
		}
		c.start(leader)
	}
	if len(told) != 15 {
		t.Fatalf("%d numbers for 15 jobs", len(told))
	}
}
