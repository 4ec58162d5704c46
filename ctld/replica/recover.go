package replica

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/hashicorp/raft"
)

// Survey describes a stopped peer's directory. Of several peers of one cluster
// the one with the highest LastTerm is furthest, and among those the one with
// the highest LastIndex.
type Survey struct {
	Term                uint64 // that the peer was in
	LastTerm, LastIndex uint64 // of the last command, committed or not
	Snapshot            uint64 // index of the newest snapshot, 0 = none
	Members             []Member
}

// Inspect reads the directory of a stopped peer, and applies to machine all
// that is in it. It changes nothing.
func Inspect(o Options, machine Machine) (survey Survey, err error) {
	setDefaults(&o)
	o.Existing = true
	lock, err := lockDirectory(o.Dir)
	if err != nil {
		return Survey{}, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	path, err := checkFiles(o)
	if err != nil {
		return Survey{}, err
	}
	snapshots, err := openSnapshots(o.Dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return Survey{}, err
	}
	store, _, err := openStore(path, true)
	if err != nil {
		return Survey{}, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	logs := &logFile{path: path, store: store}
	if logs.seal, err = readSeal(store); err != nil {
		return Survey{}, err
	}
	return replay(logs, snapshots, newFSM(machine, o.Fatal))
}

// replay applies the newest snapshot and the log after it.
func replay(logs *logFile, snapshots *checkedSnapshots, machine *fsm) (Survey, error) {
	var survey Survey
	survey.Term, _ = logs.GetUint64([]byte("CurrentTerm"))
	list, err := snapshots.List()
	if err != nil {
		return survey, fmt.Errorf("list snapshots: %w", err)
	}
	if len(list) > 0 {
		meta, file, err := snapshots.Open(list[0].ID)
		if err != nil {
			return survey, err
		}
		if err := machine.Restore(file); err != nil {
			return survey, err
		}
		survey.Snapshot, survey.LastIndex, survey.LastTerm = meta.Index, meta.Index, meta.Term
		survey.Members = membersOf(meta.Configuration)
	}
	seal := logs.current()
	for index := max(survey.Snapshot+1, seal.First); index <= seal.Last; index++ {
		var entry raft.Log
		if err := logs.GetLog(index, &entry); err != nil {
			return survey, err
		}
		switch entry.Type {
		case raft.LogCommand:
			machine.Apply(&entry)
		case raft.LogConfiguration:
			survey.Members = membersOf(raft.DecodeConfiguration(entry.Data))
		}
		survey.LastIndex, survey.LastTerm = entry.Index, entry.Term
	}
	return survey, machine.failure()
}

// Recover makes the peer of a stopped directory the only member of its cluster,
// when the majority of the others is lost for good. The cluster continues from
// the state that machine has, and Capture returns, once all of the directory
// has been applied. address is the one that peers will dial. If it is
// interrupted it can be called again.
//
// Entries that the others had committed and this peer did not have are lost;
// entries that this peer had and that were not committed are kept.
func Recover(o Options, address string, machine Machine) (err error) {
	setDefaults(&o)
	o.Existing = true
	lock, err := lockDirectory(o.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	snapshots, logs, err := openFiles(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, logs.Close()) }()
	return recoverAlone(o, address, machine, snapshots, logs)
}

func recoverAlone(o Options, address string, machine Machine, snapshots raft.SnapshotStore, logs raft.LogStore) error {
	config := raftConfig(o)
	config.Logger = bridge(o.Logger)
	if address == "" {
		address = o.Name
	}
	members := raft.Configuration{Servers: []raft.Server{{ID: config.LocalID, Address: raft.ServerAddress(address)}}}
	_, transport := raft.NewInmemTransport(raft.ServerAddress(address))
	stable, ok := logs.(raft.StableStore)
	if !ok {
		return fmt.Errorf("recover %s: %T keeps no term", o.Dir, logs)
	}
	if err := raft.RecoverCluster(config, newFSM(machine, o.Fatal), logs, stable, snapshots, transport, members); err != nil {
		return fmt.Errorf("recover %s: %w; it can be recovered again", o.Dir, err)
	}
	return nil
}
