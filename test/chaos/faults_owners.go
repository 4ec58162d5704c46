package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/test/chaos/history"
)

// owner is the account that owns all nodes: everybody's jobs are guests there.
const owner = "lab"

// ownersFaults are what owners do who ask a controller, and onNodeFaults what they do on
// their nodes, with or without controllers.
var (
	ownersFaults = []fault{
		{"reclaim", 6, time.Second, 9 * time.Second, false, func(w *weather, c cast) (*strike, error) { return w.reclaim(c, taking{}) }},
		{"reclaim-kill", 1, 3 * time.Second, 9 * time.Second, false, func(w *weather, c cast) (*strike, error) {
			return w.reclaim(c, taking{words: []string{"--kill"}})
		}},
		{"reclaim-gpus", 2, 3 * time.Second, 9 * time.Second, false, func(w *weather, c cast) (*strike, error) {
			return w.reclaim(c, taking{words: []string{"--gpus=2"}})
		}},
		{"reclaim-interrupted", 2, 3 * time.Second, 9 * time.Second, false, func(w *weather, c cast) (*strike, error) {
			return w.reclaim(c, taking{interrupted: true})
		}},
		{"reclaim-again", 2, 3 * time.Second, 9 * time.Second, false, func(w *weather, c cast) (*strike, error) {
			return w.reclaim(c, taking{again: true})
		}},
	}
	onNodeFaults = []fault{
		{"reclaim-on-node", 6, time.Second, 9 * time.Second, false, func(w *weather, c cast) (*strike, error) {
			return w.reclaim(c, taking{onNode: true})
		}},
		{"reclaim-on-node-kill", 1, 3 * time.Second, 9 * time.Second, false, func(w *weather, c cast) (*strike, error) {
			return w.reclaim(c, taking{onNode: true, words: []string{"--kill"}})
		}},
		{"reclaim-on-node-interrupted", 2, 3 * time.Second, 9 * time.Second, false, func(w *weather, c cast) (*strike, error) {
			return w.reclaim(c, taking{onNode: true, interrupted: true})
		}},
		{"reclaim-on-node-again", 2, 3 * time.Second, 9 * time.Second, false, func(w *weather, c cast) (*strike, error) {
			return w.reclaim(c, taking{onNode: true, again: true})
		}},
		{"reclaim-on-node-released-elsewhere", 2, 3 * time.Second, 9 * time.Second, false, func(w *weather, c cast) (*strike, error) {
			return w.reclaim(c, taking{onNode: true, elsewhere: true})
		}},
	}
)

// taking is how a node is taken back.
type taking struct {
	onNode      bool     // greclaim --local
	words       []string // in addition
	interrupted bool     // the command is killed, and typed once more
	again       bool     // the node is released, and reclaimed once more, at once
	elsewhere   bool     // it is released at a controller, and was reclaimed on the node
}

// withins are the deadlines, in seconds.
var withins = []int{1, 2, 2, 5, 5, 10}

// reclaim has the owner take a node back, and lend it again at the end: now and then
// before the deadline.
func (w *weather) reclaim(c cast, how taking) (*strike, error) {
	n := of(w.nodes, c.pick)
	if w.isOff(n.name) {
		return nil, nil
	}
	words := append([]string{n.name, fmt.Sprintf("--within=%ds", of(withins, c.pick2)), "--wait", "--json"}, how.words...)
	typing, stop := context.WithTimeout(context.Background(), c.length+healLimit/2)
	var typed sync.WaitGroup
	if how.interrupted {
		short, cancel := context.WithTimeout(typing, time.Duration(c.pick2/8%400)*time.Millisecond)
		w.typeReclaim(short, n, how, words)
		cancel()
	}
	typed.Go(func() {
		w.typeReclaim(typing, n, how, words)
		if how.again && typing.Err() == nil {
			w.typeRelease(typing, n, how.onNode)
			w.typeReclaim(typing, n, how, words)
		}
	})
	return &strike{target: strings.Join(words, " "), nodes: []string{n.name}, harm: history.Kills, heal: func(ctx context.Context) error {
		defer stop()
		err := until(ctx, n.name+" to be released", func() bool { return w.typeRelease(ctx, n, how.onNode && !how.elsewhere) || w.isOff(n.name) })
		stop()
		typed.Wait()
		return err
	}}, nil
}

// typeReclaim types greclaim, and notes what the owner was told.
func (w *weather) typeReclaim(ctx context.Context, n *node, how taking, words []string) {
	r := history.Reclaim{Node: n.name, OnNode: how.onNode, Some: slices.Contains(how.words, "--gpus=2"), Asked: now()}
	out, _ := w.typed(ctx, n, how.onNode, "greclaim", words...)
	var told struct {
		Reclaims []struct {
			AtMS       int64 `json:"at_ms"`
			DeadlineMS int64 `json:"deadline_ms"`
			Free       bool  `json:"free"`
			FreeMS     int64 `json:"free_after_ms"`
			Guests     []struct {
				Job     uint32 `json:"job_id"`
				Fate    string `json:"fate"`
				FreedMS int64  `json:"freed_ms"`
				TookMS  int64  `json:"node_took_ms"`
				LateMS  int64  `json:"node_late_ms"`
				Detail  string `json:"detail"`
			} `json:"guests"`
		} `json:"reclaims"`
	}
	if json.Unmarshal([]byte(out), &told) == nil && len(told.Reclaims) == 1 {
		one := told.Reclaims[0]
		r.At, r.Deadline = one.AtMS*1000, one.DeadlineMS*1000
		if one.Free {
			r.Free = max(one.FreeMS*1000, 1)
		}
		for _, guest := range one.Guests {
			r.Guests = append(r.Guests, history.Guest{Job: guest.Job, Freed: guest.FreedMS * 1000, Took: guest.TookMS * 1000, Late: guest.LateMS * 1000, Detail: guest.Detail})
			if strings.Contains(strings.ToLower(guest.Fate), "park") {
				r.Parked++
			} else {
				r.Ended++
			}
		}
	}
	w.promises.reclaimed(r)
}

// typeRelease types grelease.
func (c *cluster) typeRelease(ctx context.Context, n *node, onNode bool) bool {
	limited, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	answered := c.promises.releasing(n.name)
	_, err := c.typed(limited, n, onNode, "grelease", n.name)
	answered()
	return err == nil
}

// typed runs a command as root, at a controller or on a node, and answers what it printed.
func (c *cluster) typed(ctx context.Context, n *node, onNode bool, name string, words ...string) (string, error) {
	if onNode {
		return c.typedThere(ctx, n, name, append([]string{"--local"}, words...)...)
	}
	command := exec.CommandContext(ctx, c.program(name), words...)
	command.Env = []string{"PATH=" + c.options.binaries + ":/usr/sbin:/usr/bin:/sbin:/bin", "GLEANER_CONTROLLER=" + strings.Join(c.sockets(), ",")}
	command.WaitDelay = time.Second
	out, err := command.Output()
	return string(out), err
}

// typedThere runs a command on a node's host.
func (c *cluster) typedThere(ctx context.Context, n *node, name string, words ...string) (string, error) {
	out, err := os.CreateTemp(c.path(logFolder), "typed-")
	if err != nil {
		return "", err
	}
	path := out.Name()
	defer os.Remove(path)
	defer out.Close()
	program, err := n.host.Start(path, append([]string{c.program(name)}, words...)...)
	if err != nil {
		return "", err
	}
	select {
	case <-program.Ended():
	case <-ctx.Done():
		_ = program.Signal(syscall.SIGKILL)
		select {
		case <-program.Ended():
		case <-time.After(stopPatience):
		}
		return "", ctx.Err()
	}
	text, err := os.ReadFile(path)
	if how, well := program.How(); err == nil && !well {
		err = fmt.Errorf("%s on %s: %s: %s", name, n.name, how, text)
	}
	return jsonOf(string(text)), err
}

// jsonOf is the JSON in what a command printed, without its complaints.
func jsonOf(text string) string {
	from, to := strings.Index(text, "{\n"), strings.LastIndex(text, "}")
	if from < 0 || to < from {
		return text
	}
	return text[from : to+1]
}

// promiseLog remembers what owners did.
type promiseLog struct {
	mu       sync.Mutex
	reclaims []history.Reclaim
	releases []history.Release
}

func (l *promiseLog) reclaimed(r history.Reclaim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reclaims = append(l.reclaims, r)
}

// releasing notes that somebody lends a node again, until they have an answer.
func (l *promiseLog) releasing(node string) (answered func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := len(l.releases)
	l.releases = append(l.releases, history.Release{Node: node, Asked: now(), Over: int64(1) << 62})
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.releases[at].Over = now()
	}
}

func (l *promiseLog) into(h *history.History) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.Reclaims, h.Releases = append(h.Reclaims, l.reclaims...), append(h.Releases, l.releases...)
}

// addOwner makes the account that owns the nodes.
func (c *cluster) addOwner(ctx context.Context) error {
	return c.addRecord(ctx, "account", owner)
}

// lendAgain releases what is still reclaimed, and waits until nothing is.
func (t *test) lendAgain(ctx context.Context) error {
	return until(ctx, "all nodes to be lent again", func() bool {
		nodes, err := t.listNodes(ctx)
		if err != nil || len(nodes) != len(t.nodes) {
			return false
		}
		free := true
		for _, found := range nodes {
			if found.Reclaim == nil {
				continue
			}
			free = false
			at := slices.IndexFunc(t.cluster.nodes, func(n *node) bool { return n.name == found.Name })
			t.typeRelease(ctx, t.cluster.nodes[at], false)
		}
		return free
	})
}

// owners are those of the cluster's policy.
func (c *cluster) owners() []*pb.Owner {
	return []*pb.Owner{{Account: owner, Nodes: fmt.Sprintf("n[1-%d]", len(c.nodes))}}
}
