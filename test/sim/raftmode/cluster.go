package raftmode

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/gleaner-hpc/gleaner/ctld"
	"github.com/gleaner-hpc/gleaner/ctld/pki"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// cluster is several whole controllers, in one process and one network in
// memory.
type cluster struct {
	t       *testing.T
	dir     string
	fabric  *fabric
	names   []string
	configs map[string]ctld.Config
	servers map[string]*ctld.Server
	log     *slog.Logger
}

const (
	clientPort = ":6817"
	peerPort   = ":6818"
)

// start brings up n controllers, of which the first begins the cluster.
func start(t *testing.T, seed uint64, n int) *cluster {
	c := &cluster{t: t, dir: t.TempDir(), fabric: newFabric(seed), configs: map[string]ctld.Config{}, servers: map[string]*ctld.Server{}, log: slog.New(slog.DiscardHandler)}
	if os.Getenv("SIM_LOG") != "" {
		c.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	for i := range n {
		name := fmt.Sprintf("c%d", i+1)
		config := ctld.DefaultConfig()
		config.Name, config.DataDir = name, filepath.Join(c.dir, name)
		config.Socket, config.Listen, config.PeerListen = "/gctld.sock", name+clientPort, name+peerPort
		config.Network = c.fabric.host(name)
		if i > 0 {
			config.Join, config.Certificates = true, c.bundle(pki.Controller, name)
		}
		c.configs[name] = config
		c.names = append(c.names, name)
		c.boot(name)
		if i > 0 {
			c.join(name)
		}
	}
	return c
}

func (c *cluster) boot(name string) {
	server, err := ctld.Start(c.configs[name], "simulated", c.log)
	if err != nil {
		c.t.Fatalf("start %s: %v", name, err)
	}
	c.servers[name] = server
}

// crash takes a controller off the network before it can say a word, and ends
// it. What it has on its disk stays.
func (c *cluster) crash(name string) {
	for _, other := range slices.Concat(c.names, outsiders) {
		c.fabric.cut(name, other, 1)
		c.fabric.cut(other, name, 1)
	}
	c.fabric.reset(name)
	c.servers[name].Stop()
	delete(c.servers, name)
}

// restart opens the crashed controller's stores again.
func (c *cluster) restart(name string) {
	for _, other := range slices.Concat(c.names, outsiders) {
		c.fabric.cut(name, other, -1)
		c.fabric.cut(other, name, -1)
	}
	c.boot(name)
}

// outsiders are the hosts that are no controllers.
var outsiders = []string{"users", "n1", "n2", "n3"}

// bundle issues a certificate on the first controller.
func (c *cluster) bundle(kind pki.Kind, name string) string {
	authority, err := pki.Open(ctld.PKIDir(c.configs["c1"].DataDir))
	if err != nil {
		c.t.Fatal(err)
	}
	out := filepath.Join(c.dir, "certificates-"+name)
	if _, err := os.Stat(out); err == nil {
		return out
	}
	if err := authority.WriteBundle(kind, name, out); err != nil {
		c.t.Fatal(err)
	}
	return out
}

func (c *cluster) tls(bundle string) *tls.Config {
	authority, err := os.ReadFile(filepath.Join(bundle, "ca.pem"))
	pair, pairErr := tls.LoadX509KeyPair(filepath.Join(bundle, "cert.pem"), filepath.Join(bundle, "key.pem"))
	if err := errors.Join(err, pairErr); err != nil {
		c.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	return &tls.Config{MinVersion: tls.VersionTLS13, ServerName: dial.ServerName, RootCAs: pool, Certificates: []tls.Certificate{pair}}
}

// connect makes a client on a host, to one controller.
func (c *cluster) connect(from, to string, config *tls.Config) *grpc.ClientConn {
	at := c.fabric.host(from)
	conn, err := grpc.NewClient("passthrough:///"+to+clientPort,
		grpc.WithTransportCredentials(credentials.NewTLS(config)), grpc.WithAuthority(dial.ServerName),
		grpc.WithContextDialer(at.dialTCP))
	if err != nil {
		c.t.Fatal(err)
	}
	return conn
}

// join adds a controller by way of the first.
func (c *cluster) join(name string) {
	conn := c.connect("users", "c1", c.tls(c.bundle(pki.User, "root")))
	defer conn.Close()
	for range 60 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		_, err := pb.NewControllerClient(conn).AddPeer(ctx, &pb.AddPeerRequest{Name: name, Address: name + peerPort})
		cancel()
		if err == nil {
			return
		}
		c.log.Info("not added yet", "name", name, "error", err)
		time.Sleep(time.Second)
	}
	c.t.Fatalf("%s was not added", name)
}

// stop ends all, and every connection.
func (c *cluster) stop() {
	for _, name := range c.names {
		if server := c.servers[name]; server != nil {
			server.Stop()
			c.fabric.reset(name) // as the end of its process would
		}
	}
	for _, name := range slices.Concat(c.names, outsiders) {
		c.fabric.reset(name)
	}
}
