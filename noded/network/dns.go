package network

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/thread"
)

const dnsPort = 53

// Bounds of what a job may ask at a time, and of how long an answer may take. A question
// over the bound is not answered; the C library asks again.
const (
	maxQuestions   = 64
	maxDNSStreams  = 16
	answerPatience = 4500 * time.Millisecond // of all name servers: the C library waits for 5 s
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

// ask asks one name server after the other. If none answers, the job is told so: its
// programs fail in seconds, and would otherwise ask again and again. nil = it is no
// question.
func ask(question []byte) []byte {
	servers := nameservers(readResolver())
	for _, server := range servers {
		if answer, err := askOne(server, question, answerPatience/time.Duration(len(servers))); err == nil {
			return answer
		}
	}
	return failed(question)
}

// failed is the answer that the name server has failed, with the question in it.
func failed(question []byte) []byte {
	var parser dnsmessage.Parser
	header, err := parser.Start(question)
	if err != nil || header.Response {
		return nil
	}
	asked, err := parser.AllQuestions()
	if err != nil {
		return nil
	}
	answer := dnsmessage.Message{Questions: asked, Header: dnsmessage.Header{
		ID: header.ID, Response: true, OpCode: header.OpCode, RecursionDesired: header.RecursionDesired, RecursionAvailable: true,
		RCode: dnsmessage.RCodeServerFailure,
	}}
	packed, err := answer.Pack()
	if err != nil {
		return nil
	}
	return packed
}

func askOne(server netip.AddrPort, question []byte, patience time.Duration) ([]byte, error) {
	conn, err := net.Dial("udp", server.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
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
	servers := nameservers(readResolver())
	for _, server := range servers {
		to, err := net.DialTimeout("tcp", server.String(), answerPatience/time.Duration(len(servers)))
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
