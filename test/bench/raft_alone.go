package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"
)

// This file measures what the controllers' log is made of, without a controller: peers of
// hashicorp/raft in this process, each with a store of its own on the disk that the
// controllers have. What three of them take of one's entries, three controllers cannot pass.

const (
	aloneEntry = 512 // bytes, about what a small job takes in the log
	aloneBatch = 256 // entries that share a write, as of a controller
	aloneConns = 3   // kept open to each peer
)

// alone is peers of raft, and what they have open.
type alone struct {
	peers []*raft.Raft
	open  []io.Closer
}

// startAlone starts so many peers and waits until one leads.
func startAlone(ctx context.Context, directory string, count int) (a *alone, err error) {
	a = &alone{}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.stop())
		}
	}()
	var members raft.Configuration
	stores, transports := make([]*raftboltdb.BoltStore, count), make([]*raft.NetworkTransport, count)
	for i := range count {
		folder := filepath.Join(directory, fmt.Sprintf("raft%d", i))
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return a, err
		}
		if stores[i], err = raftboltdb.New(raftboltdb.Options{
			Path: filepath.Join(folder, "raft.db"), BoltOptions: &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType},
		}); err != nil {
			return a, err
		}
		a.open = append(a.open, stores[i])
		address := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
		if transports[i], err = raft.NewTCPTransport(address.String(), nil, aloneConns, 10*time.Second, io.Discard); err != nil {
			return a, err
		}
		a.open = append(a.open, transports[i])
		members.Servers = append(members.Servers, raft.Server{ID: raft.ServerID(fmt.Sprint(i)), Address: transports[i].LocalAddr()})
	}
	for i := range count {
		config := raft.DefaultConfig()
		config.LocalID, config.LogOutput = members.Servers[i].ID, io.Discard
		config.MaxAppendEntries, config.BatchApplyCh = aloneBatch, true
		snapshots := raft.NewDiscardSnapshotStore()
		if err := raft.BootstrapCluster(config, stores[i], stores[i], snapshots, transports[i], members); err != nil {
			return a, err
		}
		peer, err := raft.NewRaft(config, nothing{}, stores[i], stores[i], snapshots, transports[i])
		if err != nil {
			return a, err
		}
		a.peers = append(a.peers, peer)
	}
	return a, until(ctx, "a peer of raft to lead", startPatience, 10*time.Millisecond, func() (bool, error) {
		return a.leader() != nil, ctx.Err()
	})
}

func (a *alone) leader() *raft.Raft {
	for _, peer := range a.peers {
		if peer.State() == raft.Leader {
			return peer
		}
	}
	return nil
}

func (a *alone) stop() error {
	var failed error
	for _, peer := range a.peers {
		failed = errors.Join(failed, peer.Shutdown().Error())
	}
	for _, open := range a.open {
		failed = errors.Join(failed, open.Close())
	}
	return failed
}

// commit commits so many entries, each client one after the other.
func (a *alone) commit(entries, clients int) (time.Duration, error) {
	leader := a.leader()
	if leader == nil {
		return 0, errors.New("no peer of raft leads")
	}
	entry := bytes.Repeat([]byte{'x'}, aloneEntry)
	var taken atomic.Int64
	var group errgroup.Group
	begin := time.Now()
	for range clients {
		group.Go(func() error {
			for taken.Add(1) <= int64(entries) {
				if err := leader.Apply(entry, blockPatience).Error(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := group.Wait()
	return time.Since(begin), err
}

// nothing is a state machine without a state.
type nothing struct{}

func (nothing) Apply(*raft.Log) any                 { return nil }
func (nothing) Snapshot() (raft.FSMSnapshot, error) { return nothing{}, nil }
func (nothing) Restore(from io.ReadCloser) error    { return from.Close() }
func (nothing) Persist(to raft.SnapshotSink) error  { return to.Close() }
func (nothing) Release()                            {}

// peersAlone is the bare side of peers.
func (b *bench) peersAlone(ctx context.Context, round, count int, loads []peerLoad) {
	if ctx.Err() != nil {
		return
	}
	b.say("entries of %d peers of raft alone, round %d of %d", count, round+1, b.sizes.peerRounds)
	directory, err := os.MkdirTemp(b.directory, "raft-")
	if err != nil {
		b.failures = append(b.failures, err)
		return
	}
	if err := errors.Join(b.measureAlone(ctx, directory, round, count, loads), os.RemoveAll(directory)); err != nil {
		b.failures = append(b.failures, fmt.Errorf("%d peers of raft alone: %w", count, err))
	}
}

func (b *bench) measureAlone(ctx context.Context, directory string, round, count int, loads []peerLoad) error {
	a, err := startAlone(ctx, directory, count)
	if err != nil {
		return err
	}
	for _, of := range loads {
		entries := 10 * b.sizes.manyCalls
		took, err := a.commit(entries, of.clients)
		if err != nil {
			return errors.Join(err, a.stop())
		}
		b.table.add(round, of.measure, bareColumn, float64(entries)/took.Seconds())
	}
	return a.stop()
}
