package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"github.com/gleaner-hpc/gleaner/noded/gangnet"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

var someKey = bytes.Repeat([]byte{7}, 32)

// TestChoice: the kernel's WireGuard is taken if it can be had and nobody asked for the
// other, and why not is said.
func TestChoice(t *testing.T) {
	for name, c := range map[string]struct {
		asked  bool
		kernel error
		want   string
	}{
		"the kernel has it": {},
		"it does not":       {kernel: errors.New("no such device"), want: "no such device"},
		"not wanted":        {asked: true, want: errAsked.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			e := &end{log: slog.Default(), try: func() error { return c.kernel }}
			answer, err := e.answer(&gangnet.Question{Begin: &gangnet.Began{PrivateKey: someKey, Userspace: c.asked}})
			if err != nil || answer.Userspace != c.want || answer.Port == 0 {
				t.Fatal(answer, err)
			}
			if _, isKernel := e.with.(*kernel); isKernel != (c.want == "") {
				t.Errorf("it is a %T", e.with)
			}
			if _, err := e.answer(&gangnet.Question{Begin: &gangnet.Began{PrivateKey: someKey}}); !errors.Is(err, errBegun) {
				t.Errorf("a network begins twice: %v", err)
			}
			if err := e.close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPortWhileCut: while the kernel's link is not there, its port stays taken, peers are
// remembered, and nobody is called silent who cannot be heard.
func TestPortWhileCut(t *testing.T) {
	e := &end{log: slog.Default(), try: func() error { return nil }}
	ask := func(q *gangnet.Question) gangnet.Answer {
		t.Helper()
		answer, err := e.answer(q)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	port := ask(&gangnet.Question{Begin: &gangnet.Began{PrivateKey: someKey}}).Port
	if free(port) {
		t.Error("anybody may take the port while the link is cut")
	}
	peer := gangnet.Peer{Key: someKey, Endpoint: netip.MustParseAddrPort("192.0.2.1:5"), Addresses: gangnet.Addresses{V4: netip.MustParseAddr("198.18.0.2"), V6: netip.MustParseAddr("fd00::2")}}
	ask(&gangnet.Question{Peers: []gangnet.Peer{peer}})
	peer.Endpoint = netip.MustParseAddrPort("192.0.2.2:6")
	ask(&gangnet.Question{Move: &peer})
	if at := e.with.(*kernel).configs()[0].Endpoint.String(); at != "192.0.2.2:6" {
		t.Errorf("the peer is at %s when the link opens", at)
	}
	if !ask(&gangnet.Question{Heard: true}).Deaf {
		t.Error("it says that nobody was heard, though nobody can be")
	}
	ask(&gangnet.Question{Cut: true})
	if err := e.close(); err != nil || !free(port) {
		t.Errorf("the port stays taken: %v", err)
	}
}

func free(port uint16) bool {
	socket, err := net.ListenUDP("udp", &net.UDPAddr{Port: int(port)})
	if err != nil {
		return false
	}
	socket.Close()
	return true
}

// TestMoved: peers that were silent answer when they are given another endpoint, as for a
// detour.
func TestMoved(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits for the keys to be agreed on
			first, second := newPart(t, pair[0], 0), newPart(t, pair[1], 1)
			silent, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			nowhere := uint32(silent.LocalAddr().(*net.UDPAddr).Port)
			meet(t, func(int, int) uint32 { return nowhere }, first, second)
			for _, way := range [][2]*part{{first, second}, {second, first}} {
				end := way[1].Message()
				peer := gangnet.Peer{Key: end.GetPublicKey(), Addresses: way[1].Addresses(), Endpoint: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(end.GetPort()))}
				if at, err := way[0].Heard(peer); err != nil || !at.IsZero() {
					t.Fatalf("heard of it at %v, %v", at, err)
				}
				if err := way[0].Move(peer); err != nil {
					t.Fatal(err)
				}
				defer func() {
					if at, err := way[0].Heard(peer); err != nil || at.IsZero() {
						t.Errorf("nothing was heard of it: %v", err)
					}
				}()
			}
			connect(t, first, second)
		})
	}
}

// TestKilled: a process that is killed leaves the kernel's link, which goes with the
// namespace, and so does its port. One that begins in its place before that takes both.
func TestKilled(t *testing.T) {
	needs(t, gangnet.Kernel)
	holder, namespace := newNamespace(t)
	own := gangnet.Addresses{V4: netip.MustParseAddr("198.18.4.1"), V6: netip.MustParseAddr("fd6c:9a3e:11f2:7e06:0:4:0:1")}
	if err := gangnet.Settle(namespace, network, own); err != nil {
		t.Fatal(err)
	}
	ask := func(port uint16) (gangnet.Answer, *exec.Cmd) {
		t.Helper()
		process := exec.Command(os.Args[0], gangnet.Word, t.Name())
		process.Stderr = os.Stderr
		in, err := process.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := process.StdoutPipe()
		if err == nil {
			err = process.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
		var begun, opened gangnet.Answer
		questions, answers := json.NewEncoder(in), json.NewDecoder(out)
		err = errors.Join(
			questions.Encode(gangnet.Question{Begin: &gangnet.Began{PrivateKey: someKey, Port: port}}), answers.Decode(&begun),
			questions.Encode(gangnet.Question{Open: &gangnet.Opened{Namespace: namespace, Network: network, Own: own, MTU: 1420}}), answers.Decode(&opened))
		if err != nil || begun.Error != "" || opened.Error != "" {
			t.Fatal(err, begun, opened)
		}
		return begun, process
	}
	kill := func(process *exec.Cmd) {
		t.Helper()
		if err := process.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = process.Wait()
	}
	first, process := ask(0)
	kill(process)
	if free(first.Port) {
		t.Fatal("the link has gone with the process, and connections with it")
	}
	second, process := ask(first.Port)
	if second.Port != first.Port {
		t.Fatalf("the other nodes know port %d, not %d", first.Port, second.Port)
	}
	kill(process)
	if err := holder.Kill(); err != nil {
		t.Fatal(err)
	}
	prototest.Eventually(t, fmt.Sprintf("port %d is free", first.Port), func() bool { return free(first.Port) })
}
