package network

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// TestSideBySide: networks of jobs start side by side, while others change the node's
// interfaces and routes and its daemons try the way out. Each reaches the outside with
// its first packet.
func TestSideBySide(t *testing.T) {
	newOutside(t)
	const jobs, rounds = 6, 5
	ranges, err := ChooseRanges(Ranges{}, nil)
	must(t, err)
	done := make(chan struct{})
	var others, all sync.WaitGroup
	for i := range 2 {
		others.Go(func() { disturb(t, fmt.Sprintf("mine%d", i), done) })
	}
	others.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := Try(ranges); err != nil {
				t.Errorf("the way out was tried meanwhile: %v", err)
			}
		}
	})
	for i := range jobs {
		job := newPlace(t, syscall.CLONE_NEWUSER)
		all.Go(func() {
			for round := range rounds {
				if err := startAndConnect(job, ranges, fmt.Sprintf("beside %d %d", i, round), uint32(i)); err != nil {
					t.Errorf("job %d, start %d: %v", i, round, err)
				}
			}
		})
	}
	all.Wait()
	close(done)
	others.Wait()
}

// startAndConnect makes the network of a job, connects at once and removes it.
func startAndConnect(job *place, ranges Ranges, who string, number uint32) error {
	out := New(Config{Who: who, Job: number, Number: number, Node: "n1", Ranges: ranges})
	if err := out.Join(job.pid, false); err != nil {
		return errors.Join(err, out.Close())
	}
	var conn net.Conn
	begin := time.Now()
	var failure error
	job.do(func() error {
		conn, failure = net.DialTimeout("tcp", outsideAddress+":80", 10*time.Second)
		return nil
	})
	if took := time.Since(begin); took > 900*time.Millisecond {
		failure = errors.Join(failure, fmt.Errorf("connected after %v", took))
	}
	if conn != nil {
		conn.Close()
	}
	return errors.Join(failure, out.Close())
}

// disturb makes and removes an interface with routes, as other programs of a node do.
func disturb(t *testing.T, name string, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
		}
		link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "p"}
		if err := netlink.LinkAdd(link); err != nil {
			t.Error(err)
			return
		}
		if err := errors.Join(up(name), netlink.LinkDel(link)); err != nil {
			t.Error(err)
			return
		}
	}
}
