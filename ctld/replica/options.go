package replica

import (
	"log/slog"
	"time"

	"github.com/hashicorp/raft"
)

// Options say how a peer runs. Dir and Name are needed.
type Options struct {
	Dir  string // its own directory, made if absent
	Name string // of this peer, unique in the cluster
	// Existing says that the directory held a peer before: then nothing of it
	// may be missing, and no new cluster is begun.
	Existing bool
	// Join says that a new peer waits to be added to a running cluster, and
	// begins none of its own. Until Peer.Admit it takes part only in what
	// Peer.CatchUp lets in. It has no effect where Existing is set.
	Join   bool
	Logger *slog.Logger

	// Transport makes the transport to the other peers; it is called when this
	// process has locked the directory. nil for a cluster without an address,
	// in which no other peer can be reached.
	Transport func() (raft.Transport, error)
	// Fatal tells which errors of Machine.Apply stop the peer: a command it
	// does not know, a command that is damaged. nil means none.
	Fatal func(error) bool

	// ElectionTimeout is how long a peer hears nothing from a leader before
	// it stands for election. 0 = 200 ms.
	// It also bounds how long Peer.Confirm waits for a majority.
	ElectionTimeout time.Duration
	// SnapshotEvery is the number of commands after which the log is
	// shortened by a snapshot. 0 = 8192.
	SnapshotEvery uint64
	// KeepCommands is how many commands stay in the log before a snapshot, for
	// peers that lag a little. 0 = 2048.
	KeepCommands uint64
	// SnapshotInterval is how often SnapshotEvery is checked. 0 = 10 s: the log
	// is mapped into memory, and so are 10 to 20 s of it.
	SnapshotInterval time.Duration

	alone bool // no other peer can be reached
}

// maxBatch is how many waiting commands share one write and one fsync.
const maxBatch = 256

func setDefaults(o *Options) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Fatal == nil {
		o.Fatal = func(error) bool { return false }
	}
	if o.ElectionTimeout == 0 {
		o.ElectionTimeout = 200 * time.Millisecond
	}
	if o.SnapshotEvery == 0 {
		o.SnapshotEvery = 8192
	}
	if o.KeepCommands == 0 {
		o.KeepCommands = 2048
	}
	if o.SnapshotInterval == 0 {
		o.SnapshotInterval = 10 * time.Second
	}
	o.Join = o.Join && !o.Existing
	o.alone = o.Transport == nil
	if o.alone {
		o.Transport = func() (raft.Transport, error) {
			_, transport := raft.NewInmemTransport(raft.ServerAddress(o.Name))
			return transport, nil
		}
	}
}

// never is longer than any peer needs to catch up.
const never = 365 * 24 * time.Hour

func raftConfig(o Options) *raft.Config {
	config := raft.DefaultConfig()
	config.LocalID = raft.ServerID(o.Name)
	config.HeartbeatTimeout = o.ElectionTimeout
	config.ElectionTimeout = o.ElectionTimeout
	if o.Join {
		// A peer that catches up goes through former configurations, in which
		// it may have voted: it must not stand for election in one of them.
		config.HeartbeatTimeout, config.ElectionTimeout = never, never
	}
	config.LeaderLeaseTimeout = o.ElectionTimeout
	config.CommitTimeout = min(config.CommitTimeout, o.ElectionTimeout/4)
	config.SnapshotThreshold = o.SnapshotEvery
	config.SnapshotInterval = o.SnapshotInterval
	config.TrailingLogs = o.KeepCommands
	config.MaxAppendEntries = maxBatch
	config.BatchApplyCh = true
	config.ShutdownOnRemove = true
	return config
}
