package replica

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
)

func open(o Options, machine Machine) (peer *Peer, err error) {
	if o.Join {
		if err := discard(o.Dir); err != nil {
			return nil, err
		}
	}
	snapshots, logs, err := openFiles(o)
	if err != nil {
		return nil, err
	}
	transport, err := o.Transport()
	if err != nil {
		return nil, errors.Join(err, logs.Close())
	}
	peer = &Peer{
		name: o.Name, log: logs, snapshots: snapshots, fsm: newFSM(machine, o.Fatal), metrics: newMetrics(),
		options: o, address: string(transport.LocalAddr()),
	}
	logs.writeSeconds = peer.metrics.sync
	if _, whole := transport.(raft.WithPreVote); whole {
		transport = limited{around{transport}}
	}
	if o.Join {
		peer.gate = newGate(transport)
		transport = peer.gate
	}
	defer func() {
		// raft panics where it cannot read or write what it starts from.
		if fault := recover(); fault != nil {
			err = fmt.Errorf("start raft in %s: %v", o.Dir, fault)
		}
		if err != nil {
			_ = logs.Close()
			if closer, ok := transport.(raft.WithClose); ok {
				_ = closer.Close()
			}
		}
	}()
	config := raftConfig(o)
	config.Logger = bridge(o.Logger)
	if err := bootstrap(config, o, logs, snapshots, transport); err != nil {
		return nil, err
	}
	peer.raft, err = raft.NewRaft(config, peer.fsm, logs, logs, snapshots, transport)
	if err != nil {
		if cause := peer.fsm.failure(); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("start raft in %s: %w", o.Dir, err)
	}
	peer.metrics.watch(peer.raft)
	logs.serve(peer.fsm.fail)
	peer.contact = newContact(peer.raft, o.Logger, o.ElectionTimeout)
	peer.confirmer = newConfirmer(peer.raft, transport, o.Name, o.ElectionTimeout)
	if err := peer.checkMember(); err != nil {
		close(logs.closing)
		_ = peer.raft.Shutdown().Error()
		return nil, err
	}
	peer.transport = transport
	if peer.alone() {
		go peer.Stand() // there is no leader that it could hear from
	}
	return peer, nil
}

// openFiles checks and opens what is on disk, or makes it in a new directory.
func openFiles(o Options) (*checkedSnapshots, *logFile, error) {
	path, err := checkFiles(o)
	if err != nil {
		return nil, nil, err
	}
	snapshots, err := openSnapshots(o.Dir, o.Logger)
	if err != nil {
		return nil, nil, err
	}
	logs, err := openLogFile(path, o.Logger)
	if err != nil {
		return nil, nil, err
	}
	if err := dropCovered(logs, snapshots); err != nil {
		return nil, nil, errors.Join(err, logs.Close())
	}
	return snapshots, logs, nil
}

// dropCovered finishes what a crash may have interrupted: a snapshot from
// another peer was kept, and the entries before it not yet removed. The entries
// after the snapshot would not continue such a log.
func dropCovered(logs *logFile, snapshots raft.SnapshotStore) error {
	list, err := snapshots.List()
	if err != nil || len(list) == 0 {
		return err
	}
	if s := logs.current(); s.Last >= s.First && s.Last < list[0].Index {
		return logs.DeleteRange(s.First, s.Last)
	}
	return nil
}

// checkFiles reads all that is on disk to its end, and makes an empty log in a
// new directory. It returns the log's path.
func checkFiles(o Options) (string, error) {
	snapshots, err := openSnapshots(o.Dir, slog.New(slog.DiscardHandler)) // the error is enough
	if err != nil {
		return "", err
	}
	if err := removeUnfinished(snapshots.folder, "*"); err != nil {
		return "", fmt.Errorf("remove snapshots that were not finished: %w", err)
	}
	newest, err := verifySnapshots(o.Dir, snapshots)
	if err != nil {
		return "", err
	}
	path := filepath.Join(o.Dir, logName)
	there, err := exists(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("look for the log: %w", err)
	case !there && (o.Existing || newest > 0):
		return "", damaged(path, errors.New("it is missing"))
	case !there:
		if err := createLogFile(path); err != nil {
			return "", err
		}
	}
	return path, verifyLogFile(path, newest)
}

// openSnapshots keeps the two newest.
func openSnapshots(dir string, logger *slog.Logger) (*checkedSnapshots, error) {
	files, err := raft.NewFileSnapshotStoreWithLogger(dir, 2, bridge(logger))
	if err != nil {
		return nil, fmt.Errorf("open snapshots in %s: %w", dir, err)
	}
	return &checkedSnapshots{SnapshotStore: files, folder: filepath.Join(dir, "snapshots")}, nil
}

// bootstrap makes a cluster of one out of an empty directory.
func bootstrap(config *raft.Config, o Options, logs *logFile, snapshots raft.SnapshotStore, transport raft.Transport) error {
	if !o.Existing && logs.unused() {
		// A first start may have been interrupted between two writes.
		if err := logs.reset(); err != nil {
			return fmt.Errorf("begin a cluster in %s: %w", o.Dir, err)
		}
	}
	exists, err := raft.HasExistingState(logs, logs, snapshots)
	if err != nil {
		return fmt.Errorf("look for an earlier state in %s: %w", o.Dir, err)
	}
	if exists || o.Join {
		return nil
	}
	members := raft.Configuration{Servers: []raft.Server{{ID: config.LocalID, Address: transport.LocalAddr()}}}
	if err := raft.BootstrapCluster(config, logs, logs, snapshots, transport, members); err != nil {
		return fmt.Errorf("begin a cluster in %s: %w", o.Dir, err)
	}
	return nil
}

// checkMember refuses to run under a name that the cluster does not know: such
// a peer would silently wait for a leader forever. So would one of several
// peers that has no address for the others.
func (p *Peer) checkMember() error {
	if p.options.Join {
		return nil
	}
	future := p.raft.GetConfiguration()
	if err := future.Error(); err != nil {
		return fmt.Errorf("read the cluster's members: %w", err)
	}
	var names []string
	if members := future.Configuration().Servers; p.options.alone && len(members) > 1 {
		return fmt.Errorf("%w: this data directory is of a cluster of %d controllers: set peer_listen, so that they can reach each other", ErrForeign, len(members))
	}
	for _, server := range future.Configuration().Servers {
		if string(server.ID) == p.name {
			return nil
		}
		names = append(names, string(server.ID))
	}
	return fmt.Errorf("%w: the one in this data directory is of %q, and none of them is called %q: start with --name and one of those names", ErrForeign, names, p.name)
}

// discard removes the remains of an earlier attempt to join: data that does not
// come from the leader that adds this peer may be another cluster's.
func discard(dir string) error {
	for _, path := range []string{filepath.Join(dir, logName), filepath.Join(dir, "snapshots")} {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("empty the directory before joining: %w", err)
		}
	}
	return nil
}

// alone says that no other peer votes.
func (p *Peer) alone() bool {
	v := p.confirmer.voters()
	return v.self && len(v.others) == 0
}

// Stand makes this peer stand for election at once, as if the leader had handed over to it.
// The others vote as they always do, by term and log, but do not ask whether they still
// hear from a leader. If it cannot reach itself it waits like the others.
func (p *Peer) Stand() {
	request := raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(p.name)}}
	_ = p.transport.TimeoutNow(raft.ServerID(p.name), raft.ServerAddress(p.address), &request, new(raft.TimeoutNowResponse))
}
