package host

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// beginLimit bounds how long a host may take until it can start daemons.
const beginLimit = 20 * time.Second

// order is what the lab tells a host's process 1, one a line.
type order struct {
	Daemon int      `json:"daemon"`
	Words  []string `json:"words,omitempty"`  // start this program
	Log    string   `json:"log,omitempty"`    // where its output goes
	Signal int      `json:"signal,omitempty"` // or send it this signal
}

// report is what it answers: once that it is up (daemon 0), and then each
// daemon's end.
type report struct {
	Daemon int    `json:"daemon"`
	End    string `json:"end,omitempty"`
	OK     bool   `json:"ok,omitempty"` // it ended by itself with status 0
}

// orders is the lab's side of that conversation.
type orders struct {
	in  io.WriteCloser
	out io.ReadCloser

	mu      sync.Mutex
	next    int
	daemons map[int]*Daemon
	up      chan struct{}
}

func newOrders(command *exec.Cmd) (*orders, error) {
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &orders{in: in, out: out, daemons: map[int]*Daemon{}, up: make(chan struct{})}, nil
}

// begin waits until process 1 is up.
func (o *orders) begin() error {
	go o.read()
	// It waits for a line before it looks at its network.
	if err := o.send(order{}); err != nil {
		return err
	}
	select {
	case <-o.up:
		return nil
	case <-time.After(beginLimit):
		return fmt.Errorf("its process 1 did not come up within %v", beginLimit)
	}
}

// read takes reports until the host is off, which is the end of all daemons.
func (o *orders) read() {
	lines := bufio.NewScanner(o.out)
	for lines.Scan() {
		var r report
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue
		}
		if r.Daemon == 0 {
			close(o.up)
			continue
		}
		o.mu.Lock()
		daemon := o.daemons[r.Daemon]
		delete(o.daemons, r.Daemon)
		o.mu.Unlock()
		if daemon != nil {
			daemon.finish(r.End, r.OK)
		}
	}
	o.mu.Lock()
	rest := o.daemons
	o.daemons = nil
	o.mu.Unlock()
	for _, daemon := range rest {
		daemon.finish("its host was switched off", false)
	}
}

func (o *orders) send(what order) error {
	line, err := json.Marshal(what)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err = o.in.Write(append(line, '\n'))
	return err
}

func (o *orders) close() { _ = o.in.Close() }

// Daemon is a program that was started on a host.
type Daemon struct {
	number int
	orders *orders
	once   sync.Once
	ended  chan struct{}
	how    string
	ok     bool
}

func (d *Daemon) finish(how string, ok bool) {
	d.once.Do(func() {
		d.how, d.ok = how, ok
		close(d.ended)
	})
}

// Ended is closed when the daemon has ended.
func (d *Daemon) Ended() <-chan struct{} { return d.ended }

// How says how it ended, and whether it did so by itself and well. Call it
// after Ended.
func (d *Daemon) How() (string, bool) { return d.how, d.ok }

// Signal sends the daemon a signal.
func (d *Daemon) Signal(signal syscall.Signal) error {
	select {
	case <-d.ended:
		return errors.New("it has ended")
	default:
		return d.orders.send(order{Daemon: d.number, Signal: int(signal)})
	}
}

// Start starts a program on the host; its output is appended to log.
func (h *Host) Start(log string, words ...string) (*Daemon, error) {
	h.mu.Lock()
	on, o := h.machine != nil, h.orders
	h.mu.Unlock()
	if !on {
		return nil, fmt.Errorf("host %s is off", h.Name)
	}
	o.mu.Lock()
	if o.daemons == nil {
		o.mu.Unlock()
		return nil, fmt.Errorf("host %s is off", h.Name)
	}
	o.next++
	daemon := &Daemon{number: o.next, orders: o, ended: make(chan struct{})}
	o.daemons[daemon.number] = daemon
	o.mu.Unlock()
	return daemon, o.send(order{Daemon: daemon.number, Words: words, Log: log})
}
