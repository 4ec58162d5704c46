package network

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
)

// Config says what the way out of a job is to be.
type Config struct {
	Who    string // identifies the allocation on this machine: its directory
	Job    uint32
	Number uint32 // of the addresses that are tried first (Pair)
	Node   string
	Ranges Ranges
	Policy Policy
	// Besides are IPv6 addresses of another network that the job has, of which it keeps its
	// own on its loopback interface too.
	Besides netip.Prefix
	// Alone: there is no way out, but the rest of the contract holds.
	Alone bool
	Log   *slog.Logger
}

// Out is the way out of one job. Its methods are called one after the other.
type Out struct {
	Config

	mu     sync.Mutex
	plan   Plan
	table  *table
	dns    *dns
	pid    int  // process 1; 0 = the job is not there yet
	linked bool // the link is there
	held   bool // for a save
	closed bool
}

// New makes nothing yet.
func New(c Config) *Out {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Out{Config: c}
}

// ErrClosed is returned by Join after Close.
var ErrClosed = errors.New("the job's network is closed")

// Begin makes what can be made before the job's process 1 is there, beside whatever else its
// start takes: Join then takes less time. What fails is done again by Join, which says why.
// It is not for restored jobs, which bring their addresses along.
func (o *Out) Begin() {
	if o.Alone {
		return
	}
	go func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.closed || o.pid != 0 {
			return
		}
		if err := o.begin(); err != nil {
			o.Log.Info("the job's network could not be begun ahead, and is made when its process 1 is there", "error", err)
		}
	}()
}

func (o *Out) begin() error {
	node, err := nodeSide()
	if err != nil {
		return err
	}
	defer node.close()
	note, err := openForwardings()
	if err != nil {
		return err
	}
	defer note.close()
	o.plan = o.newPlan()
	if err := o.take(node); err != nil {
		return err
	}
	_, err = o.admit(node, note)
	return err
}

// Join links the network namespace of a job's process 1 with the node, when none of its
// processes has run. In a restored job, connections that led out are reset first.
func (o *Out) Join(pid int, restored bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return ErrClosed
	}
	if restored {
		count, err := resetOutside(pid)
		if err != nil {
			return err
		}
		if count > 0 {
			o.Log.Info("connections of the job to the outside were reset: its programs dial again", "connections", count)
		}
	}
	job, err := jobSide(pid)
	if err != nil {
		return err
	}
	defer job.close()
	if err := o.join(job); err != nil {
		return err
	}
	o.pid = pid
	return nil
}

func (o *Out) join(job *side) error {
	if !o.Alone {
		if err := o.link(job); err != nil {
			return errors.Join(err, o.cut())
		}
	}
	return job.unbridge()
}

// link makes what the job lacks: addresses, table, link, name service.
func (o *Out) link(job *side) error {
	node, err := nodeSide()
	if err != nil {
		return err
	}
	defer node.close()
	note, err := openForwardings()
	if err != nil {
		return err
	}
	defer note.close()
	if err := o.choose(node, job); err != nil {
		return err
	}
	if err := job.giveAddresses(&o.plan); err != nil {
		return err
	}
	uplinks, err := o.admit(node, note)
	if err != nil {
		return err
	}
	o.linked = true
	alias := fmt.Sprintf("%s%d on %s: %s", aliasPrefix, o.Job, o.Node, o.Who)
	if err := join(node, job, &o.plan, alias, node.mtu(uplinks)); err != nil {
		return err
	}
	if o.dns == nil && !o.Policy.Nowhere() {
		o.dns, err = serveDNS(job, o.Log)
	}
	return err
}

// admit lets packets of the job, and of no one else, pass through the node.
func (o *Out) admit(node *side, note *forwardings) (uplinks []string, err error) {
	if uplinks, err = node.uplinks(); err != nil {
		return nil, err
	}
	if err := note.forward(uplinks); err != nil {
		return nil, err
	}
	if o.table != nil && o.pid == 0 && !slices.Equal(o.plan.Guarded, note.set) { // it changed since Begin
		o.discardTable()
	}
	o.plan.Guarded = note.set
	if o.table == nil {
		o.table, err = makeTable(&o.plan)
	}
	return uplinks, err
}

func (o *Out) newPlan() Plan {
	return Plan{Link: LinkName(o.Who), Ranges: o.Ranges, Policy: o.Policy, Six: passesIPv6()}
}

// choose chooses the job's addresses: those that it has, or the first that are free. The
// note is locked, so no other job chooses.
func (o *Out) choose(node, job *side) error {
	v4, v6, err := job.ownAddresses(o.Besides)
	if err != nil {
		return err
	}
	if o.table != nil && !v4.IsValid() && o.begun(node) {
		return nil
	}
	o.plan = o.newPlan()
	if v4.IsValid() {
		if v6.IsValid() {
			o.plan.V6 = v6
		} else {
			_, o.plan.V6 = o.Ranges.Pair(o.Number)
		}
		o.plan.V4 = v4
		return node.mustBeFree(v4)
	}
	return o.take(node)
}

// begun says whether what Begin chose still holds. It keeps no address from other jobs.
func (o *Out) begun(node *side) bool {
	if node.mustBeFree(o.plan.V4) == nil && o.plan.Six == passesIPv6() {
		return true
	}
	o.discardTable()
	return false
}

func (o *Out) discardTable() {
	o.table.close()
	o.table = nil
}

// take takes the first addresses that are free.
func (o *Out) take(node *side) error {
	for i := range o.Ranges.Tries() {
		o.plan.V4, o.plan.V6 = o.Ranges.Pair(o.Number + i)
		err := node.mustBeFree(o.plan.V4)
		if !errors.Is(err, ErrAddressTaken) {
			return err
		}
	}
	return fmt.Errorf("%w: all of %s: set a larger network.range", ErrAddressTaken, o.Ranges.V4)
}

// mustBeFree refuses an address of another job, or of the node itself.
func (s *side) mustBeFree(address netip.Addr) error {
	taken, err := s.routed(address)
	if err == nil && taken {
		err = fmt.Errorf("%w: %s", ErrAddressTaken, address)
	}
	return err
}

// mtu is the smallest of the node's uplinks.
func (s *side) mtu(uplinks []string) int {
	const usual, least = 1500, 1280
	smallest := 0
	for _, name := range uplinks {
		if link, err := s.LinkByName(name); err == nil && (smallest == 0 || link.Attrs().MTU < smallest) {
			smallest = link.Attrs().MTU
		}
	}
	if smallest == 0 {
		return usual
	}
	return max(smallest, least)
}

// Hold cuts the link of a job whose processes are frozen to be saved, until Release. As
// long as it is cut, another job may have the addresses: this one, where it resumes.
func (o *Out) Hold() error {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.pid == 0 {
		return nil
	}
	job, err := jobSide(o.pid)
	if err != nil {
		return err
	}
	defer job.close()
	o.held = true
	return errors.Join(o.unlink(), job.bridge())
}

// Release ends Hold: connections go on if nothing else has become of them. It may be
// called without Hold.
func (o *Out) Release() error {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || !o.held {
		return nil
	}
	o.held = false
	job, err := jobSide(o.pid)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it was killed
	}
	if err != nil {
		return err
	}
	defer job.close()
	return o.join(job)
}

// unlink removes the link, and with it the routes to the job.
func (o *Out) unlink() error {
	if !o.linked {
		return nil
	}
	node, err := nodeSide()
	if err != nil {
		return err
	}
	defer node.close()
	if err := node.removeLink(o.plan.Link); err != nil {
		return err
	}
	o.linked = false
	return nil
}

// cut removes everything outside the job's namespace.
func (o *Out) cut() error {
	o.dns.close()
	err := o.unlink()
	o.table.close()
	o.dns, o.table = nil, nil
	return err
}

// Close removes the way out, and lets the node pass on nothing if this was its last job.
func (o *Out) Close() error {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	o.closed = true
	err := o.cut()
	if o.Alone {
		return err
	}
	return errors.Join(err, Tidy())
}
