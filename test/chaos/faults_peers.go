package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/test/chaos/history"
)

// damageLimit is how long a controller with a damaged file may take to refuse
// to start.
const damageLimit = 2 * time.Minute

// othersWell reports whether every controller but one answers, the cluster has a leader
// among them, and the history of one of them has all that this one's has: only then may
// one be taken away for long, or for good.
func (w *weather) othersWell(ctx context.Context, but *controller) bool {
	peers, err := w.listPeers(ctx)
	if err != nil || len(peers) != len(w.controllers) {
		return false
	}
	for _, peer := range peers {
		if peer.Name != but.name && (!peer.Reachable || !peer.Voter) {
			return false
		}
	}
	own, others, err := w.historyOf(ctx, but)
	return err == nil && others >= own && others > 0
}

// damage stops a controller, tears or flips a file of it, and sees that it does
// not start but says which file it is. It is then wiped and joins again.
func damage(w *weather, c cast) (*strike, error) {
	one := of(w.controllers, c.pick)
	ctx, cancel := context.WithTimeout(context.Background(), healLimit)
	defer cancel()
	if !w.othersWell(ctx, one) {
		return nil, errors.New("the others are not well enough")
	}
	one.stop(syscall.SIGKILL)
	path := filepath.Join(one.data, "raft", "raft.db")
	how, err := spoil(path, c.pick2)
	if err != nil {
		one.want(true)
		return nil, err
	}
	said, err := w.refusesToStart(ctx, one)
	remedy, known := remedyIn(said)
	if err == nil && !(known && strings.Contains(said, "damaged") && strings.Contains(said, path)) {
		err = fmt.Errorf("it said: %s", said)
	}
	if err != nil {
		w.cluster.weather.fail(fmt.Sprintf("%s with %s %s did not stop with a message that names it and says what to do: %v", one.name, path, how, err))
		remedy = "rm -rf --one-file-system " + one.data
	}
	w.out.note("%s: %s", one.name, said)
	return &strike{target: one.name + ": raft.db " + how, harm: history.Silences, every: true,
		heal: func(ctx context.Context) error { return w.rejoin(ctx, one, remedy) }}, nil
}

// remedyIn takes the command for the damaged controller's own host out of what
// it said.
func remedyIn(said string) (command string, ok bool) {
	_, rest, found := strings.Cut(said, "it can rejoin: ")
	command, _, more := strings.Cut(rest, "; start gctld as before with --join")
	return command, found && more
}

// spoil damages a file in one of several ways, in a place that counts: most of
// it is room taken ahead, in which nothing is.
func spoil(path string, pick uint64) (string, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if pick%2 == 0 {
		length := int64(pick / 2 % (8 * 4096))
		return fmt.Sprintf("cut to %d bytes", length), file.Truncate(length)
	}
	// A bit of one of the two meta pages, which are always in use.
	at := int64(pick / 2 % 2 * 4096)
	at += 16 + int64(pick/4%60)
	var b [1]byte
	if _, err := file.ReadAt(b[:], at); err != nil {
		return "", err
	}
	b[0] ^= 1 << (pick / 256 % 8)
	_, err = file.WriteAt(b[:], at)
	return fmt.Sprintf("with a bit flipped at %d", at), err
}

// refusesToStart starts a controller once and returns its last words; an error
// if it continues running.
func (w *weather) refusesToStart(ctx context.Context, one *controller) (string, error) {
	log := one.log + ".damaged"
	daemon, err := one.host.Start(log, one.words...)
	if err != nil {
		return "", err
	}
	select {
	case <-daemon.Ended():
	case <-time.After(damageLimit):
		_ = daemon.Signal(syscall.SIGKILL)
		<-daemon.Ended()
		return "", errors.New("it continued running")
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if _, ok := daemon.How(); ok {
		return "", errors.New("it ended as if all were well")
	}
	text, err := os.ReadFile(log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1], err
}

// rejoin runs what the message says on the controller's host, and joins the
// cluster again.
func (w *weather) rejoin(ctx context.Context, one *controller, remedy string) error {
	if err := one.host.Disk.Empty(); err != nil { // an operator makes room first
		return err
	}
	daemon, err := one.host.Start(one.log+".remedy", "/bin/sh", "-ec", remedy)
	if err != nil {
		return err
	}
	select {
	case <-daemon.Ended():
	case <-ctx.Done():
		return ctx.Err()
	}
	if how, ok := daemon.How(); !ok {
		return fmt.Errorf("%s: %s: %s", one.name, remedy, how)
	}
	if err := w.configure(one, true); err != nil {
		return err
	}
	one.want(true)
	if err := w.addPeer(ctx, one); err != nil {
		return err
	}
	return os.RemoveAll(one.data + ".damaged") // a copy for later inspection; nothing is mounted in it
}

// removeAndAdd takes a controller out of the cluster and brings it back.
func removeAndAdd(w *weather, c cast) (*strike, error) {
	one := of(w.controllers, c.pick)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if !w.othersWell(ctx, one) {
		return nil, errors.New("the others are not well enough")
	}
	if out, err := w.tool(ctx, "gcontrol", "peer", "remove", one.name); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	one.stop(syscall.SIGTERM)
	return &strike{target: one.name, harm: history.Silences, every: true,
		heal: func(ctx context.Context) error {
			return w.rejoin(ctx, one, "rm -rf --one-file-system "+one.data)
		}}, nil
}
