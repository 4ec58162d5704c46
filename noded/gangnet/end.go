package gangnet

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"reflect"
	"sync"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Errors.
var (
	// ErrSilent is returned, wrapped, when the process does not answer.
	ErrSilent = errors.New("the process that carries the job's network does not answer")
	// ErrDeaf is returned by Heard while it cannot be known: the link is cut.
	ErrDeaf = errors.New("whether the other nodes answer is not known: the link is cut")
)

const (
	// answerPatience bounds one question. Each takes milliseconds.
	answerPatience = 10 * time.Second
	// restartPause is how long after its end a process is begun again.
	restartPause = 500 * time.Millisecond
)

// End is an allocation's part of its job's network.
type End struct {
	network netip.Prefix
	own     netip.Addr
	program string
	name    string
	key     *ecdh.PrivateKey
	log     *slog.Logger

	mu      sync.Mutex
	child   *child // nil = it has ended
	carrier Carrier
	port    uint16
	mtu     int
	peers   []Peer
	opened  *Opened // nil = the link is cut
	closing bool
}

// Carrier says whose WireGuard carries a network.
type Carrier string

// Carriers.
const (
	Kernel    Carrier = "kernel"
	Userspace Carrier = "userspace" // wireguard-go, in the process
)

// Begin starts the process, which opens a UDP port of the node. mtu is what goes through to
// the other nodes. The name is for people who look at the node's processes. Without a carrier
// the kernel's WireGuard is taken where there is one.
func Begin(program, name string, carrier Carrier, network netip.Prefix, index, mtu int, log *slog.Logger) (*End, error) {
	own, err := Address(network, index)
	if err != nil {
		return nil, err
	}
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key for the job's network: %w", err)
	}
	e := &End{network: network, own: own, program: program, name: name, key: key, mtu: mtu, carrier: carrier, log: log}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e, e.start()
}

// Message is what the others are told.
func (e *End) Message() *pb.NetworkEnd {
	e.mu.Lock()
	defer e.mu.Unlock()
	return &pb.NetworkEnd{PublicKey: e.key.PublicKey().Bytes(), Port: uint32(e.port), Mtu: uint32(e.mtu)}
}

// Carrier answers whose WireGuard it is.
func (e *End) Carrier() Carrier {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.carrier
}

// Pid is that of the process that carries it; 0 = there is none at this moment.
func (e *End) Pid() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.child == nil {
		return 0
	}
	return e.child.cmd.Process.Pid
}

// Prefix is the allocation's address, with the bits of the job's network.
func (e *End) Prefix() netip.Prefix { return netip.PrefixFrom(e.own, e.network.Bits()) }

// Meet tells it who the others are, and how large a packet may be for all. It may be told
// again.
func (e *End) Meet(peers []Peer, mtu int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if reflect.DeepEqual(e.peers, peers) {
		return nil // it has agreed on keys with them
	}
	e.peers, e.mtu = peers, mtu
	return e.ask(&Question{Peers: peers})
}

// Open makes the link in a network namespace, in which Settle was called.
func (e *End) Open(namespace string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	opened := &Opened{Namespace: namespace, Address: e.Prefix().String(), MTU: e.mtu}
	if e.opened != nil && *e.opened == *opened {
		return nil
	}
	if err := e.ask(&Question{Open: opened}); err != nil {
		return err
	}
	e.opened = opened
	return nil
}

// Cut removes the link.
func (e *End) Cut() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.opened = nil
	if e.child == nil { // the link went with it
		return nil
	}
	return e.ask(&Question{Cut: true})
}

// Move gives a peer another endpoint.
func (e *End) Move(p Peer) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ask(&Question{Move: &p})
}

// Heard answers when keys were last agreed on with a peer; the zero time: never.
func (e *End) Heard(p Peer) (time.Time, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.child == nil {
		return time.Time{}, ErrSilent
	}
	answer, err := e.child.ask(&Question{Heard: true})
	if err == nil && answer.Deaf {
		err = ErrDeaf
	}
	at, known := answer.Heard[hex.EncodeToString(p.Key)]
	if err != nil || !known {
		return time.Time{}, err
	}
	return time.Unix(at, 0), nil
}

// Close ends the process, and the link with it.
func (e *End) Close() {
	e.mu.Lock()
	e.closing = true
	running := e.child
	e.mu.Unlock()
	if running != nil {
		running.end()
	}
}

// start begins the process, and brings it to where the one before was. The caller holds mu.
func (e *End) start() error {
	running, err := startChild(e.program, e.name)
	if err != nil {
		return err
	}
	answer, err := running.ask(&Question{Begin: &Began{PrivateKey: e.key.Bytes(), Port: e.port, Userspace: e.carrier == Userspace}})
	if err == nil && e.peers != nil {
		_, err = running.ask(&Question{Peers: e.peers})
	}
	if err == nil && e.opened != nil {
		_, err = running.ask(&Question{Open: e.opened})
	}
	if err != nil {
		running.end()
		return err
	}
	e.port, e.carrier = answer.Port, Kernel
	if answer.Userspace != "" {
		e.carrier = Userspace
	}
	e.log.Info("a process carries the job's network", "pid", running.cmd.Process.Pid, "wireguard", e.carrier, "reason", answer.Userspace)
	e.child = running
	go e.watch(running)
	return nil
}

// watch begins the process again if it ends by itself: connections in the job's network
// outlive that.
func (e *End) watch(running *child) {
	<-running.ended
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.child == running {
		e.child = nil
	}
	for !e.closing && e.child == nil {
		e.log.Warn("the process that carries the job's network has ended, and is begun again: see whether something kills it")
		e.mu.Unlock()
		time.Sleep(restartPause)
		e.mu.Lock()
		if e.closing || e.child != nil {
			return
		}
		if err := e.start(); err != nil {
			e.log.Error("the job's network is down: its processes do not reach those on the other nodes", "error", err)
		}
	}
}

func (e *End) ask(q *Question) error {
	if e.child == nil {
		return ErrSilent
	}
	_, err := e.child.ask(q)
	return err
}

// child is the process.
type child struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *json.Decoder
	out     *os.File
	ended   chan struct{}
}

func startChild(program, name string) (*child, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer write.Close()
	cmd := exec.Command(program, Word, name)
	cmd.Args[0] = "gnoded"
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", write, os.Stderr
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		read.Close()
		return nil, fmt.Errorf("start the process that carries the job's network: %w", err)
	}
	c := &child{cmd: cmd, in: in, out: read, answers: json.NewDecoder(read), ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		_ = cmd.Wait() // why is in its last words
	}()
	return c, nil
}

func (c *child) ask(q *Question) (Answer, error) {
	line, err := json.Marshal(q)
	if err != nil {
		return Answer{}, err
	}
	if err := c.out.SetReadDeadline(time.Now().Add(answerPatience)); err != nil {
		return Answer{}, err
	}
	var answer Answer
	if _, err = c.in.Write(append(line, '\n')); err == nil {
		err = c.answers.Decode(&answer)
	}
	switch {
	case err != nil:
		_ = c.cmd.Process.Kill() // what it says later would be the answer to another question
		return answer, fmt.Errorf("%w: %w", ErrSilent, err)
	case answer.Error != "":
		return answer, errors.New(answer.Error)
	}
	return answer, nil
}

// end ends the process, and waits for that.
func (c *child) end() {
	c.in.Close()
	select {
	case <-c.ended:
	case <-time.After(time.Second):
		_ = c.cmd.Process.Kill()
		<-c.ended
	}
	c.out.Close()
}
