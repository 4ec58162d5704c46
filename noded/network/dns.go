package network

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/thread"
)

const dnsPort = 53

// Bounds of what a job may ask at a time, and of how long an answer may take. A question
// over the bound is not answered; the C library asks again.
const (
	maxQuestions   = 64
	maxDNSStreams  = 16
	answerPatience = 3 * time.Second // of one name server; then the next is asked
	streamPatience = 10 * time.Second
	maxDNSBytes    = 64 << 10
)

// dns answers a job's questions for names: it hands them to the name servers of the node
// and does not look into them.
type dns struct {
	packets net.PacketConn
	streams net.Listener
	turns   chan struct{}
	log     *slog.Logger
}

// serveDNS begins to answer in the job's network.
func serveDNS(job *side, log *slog.Logger) (d *dns, err error) {
	d = &dns{turns: make(chan struct{}, maxQuestions), log: log}
	at := net.JoinHostPort(DNS.String(), fmt.Sprint(dnsPort))
	thread.Discard(func() {
		if err = unix.Setns(int(job.ns), unix.CLONE_NEWNET); err != nil {
			return
		}
		if d.packets, err = net.ListenPacket("udp4", at); err != nil {
			return
		}
		d.streams, err = net.Listen("tcp4", at)
	})
	if err != nil {
		d.close()
		return nil, fmt.Errorf("answer the job's questions for names: %w", err)
	}
	go d.servePackets()
	go d.serveStreams()
	return d, nil
}

func (d *dns) close() {
	if d == nil {
		return
	}
	if d.packets != nil {
		d.packets.Close()
	}
	if d.streams != nil {
		d.streams.Close()
	}
}

func (d *dns) servePackets() {
	buffer := make([]byte, maxDNSBytes)
	for {
		n, from, err := d.packets.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(time.Millisecond) // it is an answer that nobody took
			continue
		}
		question := append([]byte(nil), buffer[:n]...)
		select {
		case d.turns <- struct{}{}:
			go func() {
				defer func() { <-d.turns }()
				if answer := ask(question); answer != nil {
					_, _ = d.packets.WriteTo(answer, from)
				}
			}()
		default:
		}
	}
}

// ask asks one name server after the other; nil = none answered.
func ask(question []byte) []byte {
	for _, server := range nameservers(readResolver()) {
		if answer, err := askOne(server, question); err == nil {
			return answer
		}
	}
	return nil
}

func askOne(server netip.AddrPort, question []byte) ([]byte, error) {
	conn, err := net.Dial("udp", server.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(answerPatience))
	if _, err := conn.Write(question); err != nil {
		return nil, err
	}
	answer := make([]byte, maxDNSBytes)
	n, err := conn.Read(answer)
	return answer[:max(n, 0)], err
}

func (d *dns) serveStreams() {
	turns := make(chan struct{}, maxDNSStreams)
	for {
		conn, err := d.streams.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		select {
		case turns <- struct{}{}:
			go func() {
				defer func() { <-turns }()
				passStream(conn)
			}()
		default:
			conn.Close()
		}
	}
}

// passStream connects a job's stream with the first name server that takes it.
func passStream(conn net.Conn) {
	defer conn.Close()
	for _, server := range nameservers(readResolver()) {
		to, err := net.DialTimeout("tcp", server.String(), answerPatience)
		if err != nil {
			continue
		}
		deadline := time.Now().Add(streamPatience)
		_, _ = conn.SetDeadline(deadline), to.SetDeadline(deadline)
		go func() {
			_, _ = io.Copy(to, conn)
			_ = to.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(conn, to)
		to.Close()
		return
	}
}
