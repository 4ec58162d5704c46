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
	Logger   *slog.Logger

	// Transport makes what reaches the other peers; it is called when the
	// directory is this process's own. nil for a cluster that has been given
	// no address, in which no other peer can be reached.
	Transport func() (raft.Transport, error)
	// Fatal tells which errors of Machine.Apply stop the peer: a command it
	// does not know, a command that is damaged. nil means none.
	Fatal func(error) bool

	// ElectionTimeout is how long a peer hears nothing from a leader before
	// it stands for election. 0 = 200 ms.
	ElectionTimeout time.Duration
	// SnapshotEvery is the number of commands after which the log is
	// shortened by a snapshot. 0 = 8192.
	SnapshotEvery uint64
	// KeepCommands is how many commands stay in the log behind a snapshot,
	// for peers that lag a little. 0 = 2048.
	KeepCommands uint64
	// SnapshotInterval is how often SnapshotEvery is looked at. 0 = 10 s: the
	// log is in memory as far as it is mapped, and so are 10 to 20 s of it.
	SnapshotInterval time.Duration
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
	if o.Transport == nil {
		o.Transport = func() (raft.Transport, error) {
			_, transport := raft.NewInmemTransport(raft.ServerAddress(o.Name))
			return transport, nil
		}
	}
}

func raftConfig(o Options) *raft.Config {
	config := raft.DefaultConfig()
	config.LocalID = raft.ServerID(o.Name)
	config.HeartbeatTimeout = o.ElectionTimeout
	config.ElectionTimeout = o.ElectionTimeout
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
