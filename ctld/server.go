// Package ctld is the controller daemon.
//
// Contract: Start brings up one controller on its data directory and listens;
// Wait returns when it has stopped, and why. The packages below make all
// decisions; this file wires them.
package ctld

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc"

	"github.com/gleaner-hpc/gleaner/ctld/api"
	"github.com/gleaner-hpc/gleaner/ctld/audit"
	"github.com/gleaner-hpc/gleaner/ctld/history"
	"github.com/gleaner-hpc/gleaner/ctld/leader"
	"github.com/gleaner-hpc/gleaner/ctld/mail"
	"github.com/gleaner-hpc/gleaner/ctld/peerlink"
	"github.com/gleaner-hpc/gleaner/ctld/pki"
	"github.com/gleaner-hpc/gleaner/ctld/replica"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/ctld/web"
)

// Limits of starting and stopping.
const (
	barrierLimit  = 30 * time.Second
	drainLimit    = 3 * time.Second
	handOverLimit = 2 * time.Second
)

// Server is one running controller.
type Server struct {
	config  Config
	log     *slog.Logger
	cluster *cluster
	leader  *leader.Leader
	mail    *mail.Mailer
	api     *api.Server
	grpc    *grpc.Server
	backups *backups    // nil without backup_dir
	web     *web.Server // nil without metrics_listen

	credentials  *api.ServerCredentials // nil when it has no address but the socket
	certificates *pki.Authority         // nil when it has no address but the socket
	wire         *replica.Wire          // nil when it has none for other controllers
	peers        *peerlink.Peers
	history      *history.Keeper
	linkGRPC     *grpc.Server

	addresses []string      // that it listens on, as dial takes them
	ready     chan struct{} // closed when it answers for the first time
	once      sync.Once     // closes ready
	stopped   chan struct{}
	audit     *audit.Log // nil = there is none
	stop      context.CancelFunc
	tasks     sync.WaitGroup
	closing   sync.Once

	mu      sync.Mutex
	failure error
}

// Start brings up a controller. version is shown to clients.
func Start(config Config, version string, log *slog.Logger) (*Server, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	if err := checkDataDir(config.DataDir); err != nil {
		return nil, err
	}
	if err := installCertificates(&config); err != nil {
		return nil, err
	}
	name, existing, err := peerName(&config)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{config: config, log: log, cluster: newCluster(log), ready: make(chan struct{}), stopped: make(chan struct{}), stop: stop}
	s.leader = leader.New(s.cluster, config.FenceCommand, log)
	host, _ := os.Hostname()
	s.mail = mail.New(s.cluster, host, log)
	if err := s.openPeer(name, existing); err != nil {
		stop()
		return nil, err
	}
	if s.peers, err = s.newPeers(name, version); err != nil {
		stop()
		return nil, errors.Join(err, s.cluster.peer.Close())
	}
	s.history = s.newHistory()
	unread, err := config.unreadLimit()
	if err != nil {
		stop()
		return nil, errors.Join(err, s.cluster.peer.Close())
	}
	if config.BackupDir != "" {
		every, _ := config.backupEvery() // Check has checked it
		s.backups = &backups{dir: config.BackupDir, every: every, keep: config.BackupKeep, name: name, version: version, cluster: s.cluster, log: log}
		s.tasks.Go(func() { s.backups.run(ctx, s.ready) })
	}
	if config.Listen != "" {
		if err := s.openCertificates(name); err != nil {
			stop()
			return nil, errors.Join(err, s.cluster.peer.Close())
		}
	}
	if s.audit, err = config.openAudit(name, log); err != nil {
		stop()
		return nil, errors.Join(err, s.cluster.peer.Close())
	}
	s.api = api.NewServer(s.cluster, s.leader, api.Options{Authority: s.authority(), Version: version, HostName: host, Settings: config.settings(), Logger: log, UnreadLimit: unread, Peers: s.peers, Level: uint32(state.Newest), SpoolDirectory: config.DataDir, Problems: mailProblems(s.mail, s.historyProblems(auditProblems(s.audit, s.backups.problems))), History: s.history, Audit: s.audit, AuditRequired: config.Audit == AuditRequired})
	if err := s.listen(name); err != nil {
		stop()
		return nil, errors.Join(err, s.cluster.peer.Close())
	}
	if err := s.listenMetrics(version); err != nil {
		s.fail(err)
		return nil, s.Wait()
	}
	s.tasks.Go(func() { paceHeap(ctx) })
	s.tasks.Go(func() { s.history.Run(ctx) })
	if s.certificates != nil {
		s.tasks.Go(func() { watchCertificate(ctx, log, s.certificates, name) })
		s.tasks.Go(func() { s.cutRevoked(ctx) })
		s.tasks.Go(func() { s.tellIssued(ctx) })
		s.tasks.Go(func() { s.renewCertificate(ctx, name) })
	}
	s.tasks.Go(func() { s.followLeadership(ctx) })
	s.tasks.Go(func() { s.peers.Watch(ctx, s.follows) })
	s.tasks.Go(func() { s.peers.Succeed(ctx) })
	s.tasks.Go(func() {
		if err := s.peers.Stray(ctx); err != nil {
			s.fail(err)
		}
	})
	if s.cluster.peer.Joining() {
		log.Info("waiting to be added: type on the cluster", "command", fmt.Sprintf("gcontrol peer add %s %s", name, s.cluster.peer.Address()))
		s.announce()
	}
	return s, nil
}

// settings are shown by ShowConfig.
func (c *Config) settings() map[string]string {
	shown := map[string]string{"StateSaveLocation": c.DataDir, "GLEANER_SOCKET": c.Socket}
	if c.BackupDir != "" {
		shown["GLEANER_BACKUP"] = fmt.Sprintf("%s every %s, the newest %d", c.BackupDir, c.BackupEvery, c.BackupKeep)
	}
	if c.Listen != "" {
		shown["GLEANER_LISTEN"] = c.Listen
	}
	if c.MungeSocket != "" {
		shown["GLEANER_MUNGE"] = c.MungeSocket
	}
	return shown
}

// openPeer starts the log, and keeps the name that it was first used under.
func (s *Server) openPeer(name string, existing bool) error {
	options := replica.Options{
		Dir: raftDir(&s.config), Name: name, Existing: existing, Logger: s.log, Fatal: fatal, Join: s.config.Join,
	}
	var err error
	if s.config.PeerListen != "" {
		options.Transport = func() (raft.Transport, error) { return s.listenPeers(name) }
		if options.ElectionTimeout, err = s.config.electionTimeout(); err != nil {
			return err
		}
	}
	s.cluster.peer, err = replica.Open(options, &applier{cluster: s.cluster, loops: s.leader, mail: s.mail})
	if errors.Is(err, replica.ErrForeign) && s.config.Name == "" && existing {
		return fmt.Errorf("%w (its name is in %s)", err, filepath.Join(s.config.DataDir, nameFile))
	}
	if err != nil || existing || s.config.Join {
		return withRemedy(err, &s.config, name) // one that joins keeps its name when it votes
	}
	if err := keepName(s.config.DataDir, name); err != nil {
		return errors.Join(err, s.cluster.peer.Close())
	}
	return nil
}

// listenPeers opens the address for the other controllers.
func (s *Server) listenPeers(name string) (raft.Transport, error) {
	if err := s.openCertificates(name); err != nil {
		return nil, err
	}
	server, client, err := s.certificates.PeerConfigs(name)
	if err != nil {
		return nil, err
	}
	s.wire, err = replica.Listen(s.config.network(), s.config.PeerListen, s.config.peerAddress(), server, client)
	if err != nil {
		return nil, inUse(err, "peer_listen")
	}
	return s.wire.Transport(s.log), nil
}

// PKIDir is the directory of the certificate authority.
func PKIDir(dataDir string) string { return filepath.Join(dataDir, "pki") }

// listen opens the sockets and serves them.
func (s *Server) listen(name string) error {
	local, err := s.config.listenSocket()
	if err != nil {
		return err
	}
	listeners := []net.Listener{bound(local)}
	credentials := api.Credentials(nil)
	if s.config.Listen != "" {
		var remote net.Listener
		if remote, credentials, err = s.listenRemote(name); err != nil {
			return errors.Join(err, local.Close())
		}
		listeners = append(listeners, bound(remote))
		s.credentials = credentials
	}
	s.grpc = s.api.GRPC(credentials)
	s.linkGRPC = s.api.LinkGRPC()
	if s.wire != nil {
		s.log.Info("listening for controllers", "address", s.wire.Requests().Addr().String())
		s.serve(s.linkGRPC, s.wire.Requests())
	}
	for _, listener := range listeners {
		s.addresses = append(s.addresses, targetOf(listener.Addr()))
		s.log.Info("listening", "address", listener.Addr().String())
		s.serve(s.grpc, listener)
	}
	return nil
}

func (s *Server) serve(server *grpc.Server, listener net.Listener) {
	s.tasks.Go(func() {
		if err := server.Serve(listener); err != nil && !errors.Is(err, net.ErrClosed) {
			s.fail(fmt.Errorf("serve %s: %w", listener.Addr(), err))
		}
	})
}

// listenRemote opens the address for users and nodes of other hosts.
func (s *Server) listenRemote(name string) (net.Listener, *api.ServerCredentials, error) {
	if err := s.openCertificates(name); err != nil {
		return nil, nil, err
	}
	config, err := s.certificates.ServerConfig(name)
	if err != nil {
		return nil, nil, err
	}
	listener, err := s.config.network().Listen("tcp", s.config.Listen)
	if err != nil {
		return nil, nil, inUse(fmt.Errorf("listen on %s: %w", s.config.Listen, err), "listen")
	}
	accepted := api.Credentials(config)
	if s.config.MungeSocket != "" {
		config.ClientAuth = tls.VerifyClientCertIfGiven // who shows none needs a credential
		accepted.AcceptMunge(s.config.MungeSocket, func(from netip.Addr) *policy.Login { return s.cluster.View().Policy().MungeLoginOf(from) })
	}
	return listener, accepted, nil
}

// listenMetrics opens the address for Prometheus, if one is configured.
func (s *Server) listenMetrics(version string) error {
	if s.config.MetricsListen == "" {
		return nil
	}
	registry, err := s.registry(version)
	if err != nil {
		return err
	}
	if s.web, err = web.Listen(s.config.MetricsListen, registry, s.log); err != nil {
		return inUse(err, "metrics_listen")
	}
	s.log.Info("metrics", "address", "http://"+s.web.Address().String()+web.MetricsPath)
	return nil
}

// inUse says what to do about an address that another program uses.
func inUse(err error, key string) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: stop the other program (ss -ltnp shows it), or give another %s", err, key)
	}
	return err
}

// followLeadership runs the leader's loops while this peer leads, and stops
// the controller when its peer cannot continue.
func (s *Server) followLeadership(ctx context.Context) {
	end, leading := func() {}, false
	defer func() { end() }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.cluster.peer.Failed():
			s.fail(withRemedy(s.cluster.peer.Failure(), &s.config, s.cluster.Name()))
			return
		case <-s.cluster.replaced:
			// The loops and the sessions know another state: begin as a new
			// leader does.
			if end(); leading {
				end = s.startLeading(ctx)
			}
		case leads := <-s.cluster.peer.Leadership():
			end()
			end, leading = func() {}, leads
			if leads {
				end = s.startLeading(ctx)
			} else {
				s.log.Warn("this controller does not lead any more; if that happens often, look at its disk and network", "leader", s.cluster.Leader())
			}
		}
	}
}

// startLeading starts the leader's loops and returns what ends them.
func (s *Server) startLeading(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var loops sync.WaitGroup
	loops.Go(func() { s.lead(ctx) })
	return func() { cancel(); loops.Wait() }
}

// lead waits until everything committed before is applied here, then leads.
func (s *Server) lead(ctx context.Context) {
	term := s.cluster.Term()
	err := s.cluster.peer.Barrier(barrierLimit)
	if err == nil && (term != s.cluster.Term() || !s.cluster.IsLeader()) {
		err = replica.ErrNotLeader
	}
	if err != nil {
		if ctx.Err() == nil {
			s.log.Warn("this controller was to lead and could not catch up; it is tried again, look at its disk if it continues", "error", err)
		}
		return
	}
	s.cluster.begin(term)
	defer s.cluster.end()
	s.log.Info("leading", "term", term, "index", s.cluster.AppliedIndex())
	var members sync.WaitGroup
	defer members.Wait()
	members.Go(func() { s.peers.Promote(ctx) })
	members.Go(func() { s.mail.Lead(ctx) })
	members.Go(func() { s.cluster.raiseLevel(ctx, s.peers.List) })
	members.Go(func() { s.cluster.trimHistory(ctx, s.peers.List) })
	s.leader.Lead(ctx, term, s.announce)
}

// follows is called when the leader is known.
func (s *Server) follows() {
	if !s.cluster.IsLeader() {
		s.announce()
	}
}

// announce logs, once, that this controller answers.
func (s *Server) announce() {
	s.once.Do(func() {
		s.log.Info("ready", "peer", s.cluster.Name(), "socket", s.config.Socket)
		close(s.ready)
	})
}

// targetOf is an address as package dial takes it.
func targetOf(address net.Addr) string {
	if address.Network() == "unix" {
		return "unix://" + address.String()
	}
	return address.String()
}

// Addresses are those it listens on, as package dial takes them.
func (s *Server) Addresses() []string { return s.addresses }

// Ready is closed when the controller answers for the first time: it leads, or
// knows who does, or waits to be added.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// fail notes why the controller stops, and stops it.
func (s *Server) fail(err error) {
	s.mu.Lock()
	if s.failure == nil {
		s.failure = err
	}
	s.mu.Unlock()
	go s.Stop()
}

// handOver lets another controller lead before this one stops, if there is one:
// that is faster than an election afterwards.
func (s *Server) handOver() {
	if !s.cluster.IsLeader() || s.cluster.peer.Failure() != nil || len(s.cluster.peer.Members()) == 1 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), handOverLimit)
	defer cancel()
	if _, err := s.peers.Transfer(ctx, ""); err != nil {
		s.log.Info("stops while it leads; the others elect a leader", "error", err)
	}
}

// Stop lets another controller lead, ends streams and requests, then the loops,
// then the log. It returns when all is down.
func (s *Server) Stop() {
	s.closing.Do(func() {
		s.handOver()
		s.api.Stop()
		if s.web != nil {
			_ = s.web.Close() // nothing can be lost there
		}
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			s.grpc.GracefulStop()
			s.linkGRPC.GracefulStop()
		}()
		select {
		case <-drained:
		case <-time.After(drainLimit):
			s.grpc.Stop()
			s.linkGRPC.Stop()
			<-drained
		}
		s.stop()
		s.tasks.Wait()
		if err := s.audit.Close(); err != nil {
			s.log.Warn("the audit log was not closed cleanly: its last lines may not be on the disk", "error", err)
		}
		if err := s.cluster.peer.Close(); err != nil {
			s.log.Warn("the log was not closed cleanly; it is checked at the next start", "error", err)
		}
		close(s.stopped)
	})
	<-s.stopped
}

// Wait returns when the controller has stopped: nil after Stop, else why it
// could not continue.
func (s *Server) Wait() error {
	<-s.stopped
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}
