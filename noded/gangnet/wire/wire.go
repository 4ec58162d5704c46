// Package wire is the process that is one end of a gang's network, with WireGuard in it:
// see package gangnet, whose questions it answers.
//
// Contract: it ends when nobody can ask it any more, and then nothing of it is left. Its
// UDP port is in the network namespace in which it began, the node's; the link is in the
// job's.
package wire

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"

	"github.com/gleaner-hpc/gleaner/noded/gangnet"
)

// Main answers questions until there are no more.
func Main(questions io.Reader, answers io.Writer, log *slog.Logger) error {
	e := &end{log: log, outlet: newOutlet(device.DefaultMTU)}
	in, out := json.NewDecoder(questions), json.NewEncoder(answers)
	for {
		var question gangnet.Question
		if err := in.Decode(&question); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a question: %w", err)
		}
		answer, err := e.answer(&question)
		if err != nil {
			answer.Error = err.Error()
		}
		if err := out.Encode(answer); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
}

// end is one allocation's part of the network.
type end struct {
	log    *slog.Logger
	outlet *outlet
	device *device.Device // nil = it has not begun
}

var errNotBegun = errors.New("it has not begun: ask that first")

func (e *end) answer(q *gangnet.Question) (answer gangnet.Answer, err error) {
	switch {
	case q.Begin != nil:
		answer.Port, err = e.begin(q.Begin)
	case e.device == nil:
		err = errNotBegun
	case q.Open != nil:
		err = e.open(q.Open)
	case q.Cut:
		err = e.cut()
	case q.Move != nil:
		err = e.device.IpcSet(fmt.Sprintf("public_key=%x\nupdate_only=true\nendpoint=%s\npersistent_keepalive_interval=%d\n", q.Move.Key, q.Move.Endpoint, gangnet.KeepAliveS))
	case q.Heard:
		answer.Heard, err = e.heard()
	default:
		err = e.device.IpcSet(gangnet.Settings(q.Peers))
	}
	return answer, err
}

// begin opens the port.
func (e *end) begin(b *gangnet.Began) (uint16, error) {
	if e.device != nil {
		return 0, errors.New("it has begun already")
	}
	logger := &device.Logger{
		Verbosef: device.DiscardLogf,
		Errorf:   func(format string, args ...any) { e.log.Warn("wireguard: " + fmt.Sprintf(format, args...)) },
	}
	d := device.NewDevice(e.outlet, conn.NewStdNetBind(), logger)
	settings := "private_key=" + hex.EncodeToString(b.PrivateKey) + "\n"
	if b.Port != 0 {
		settings += fmt.Sprintf("listen_port=%d\n", b.Port)
	}
	if err := errors.Join(d.IpcSet(settings), d.Up()); err != nil {
		d.Close()
		return 0, fmt.Errorf("open a UDP port: %w", err)
	}
	e.device = d
	var port uint64
	err := e.each(func(key, value string) (err error) {
		if key == "listen_port" {
			port, err = strconv.ParseUint(value, 10, 16)
		}
		return err
	})
	return uint16(port), err
}

// heard answers when keys were last agreed on, by peer.
func (e *end) heard() (map[string]int64, error) {
	all, peer := map[string]int64{}, ""
	return all, e.each(func(key, value string) error {
		switch key {
		case "public_key":
			peer = value
		case "last_handshake_time_sec":
			at, err := strconv.ParseInt(value, 10, 64)
			if at > 0 {
				all[peer] = at
			}
			return err
		}
		return nil
	})
}

// each goes through what WireGuard says of itself.
func (e *end) each(take func(key, value string) error) error {
	said, err := e.device.IpcGet()
	if err != nil {
		return err
	}
	for line := range strings.Lines(said) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if err := take(key, value); err != nil {
			return fmt.Errorf("wireguard says %q: %w", line, err)
		}
	}
	return nil
}

// open makes the link, in place of the one before.
func (e *end) open(o *gangnet.Opened) error {
	if err := e.cut(); err != nil {
		return err
	}
	var link tun.Device
	err := gangnet.Within(o.Namespace, func() (err error) {
		link, err = tun.CreateTUN(gangnet.Device, o.MTU)
		return err
	})
	if err != nil {
		return fmt.Errorf("make an interface for the job's network (does /dev/net/tun exist? modprobe tun): %w", err)
	}
	go func() { // nobody else listens
		for range link.Events() {
			continue
		}
	}()
	if err := o.Raise(); err != nil {
		return errors.Join(err, link.Close())
	}
	e.outlet.plug(link, o.MTU)
	return nil
}

// cut removes the link. When it returns, the interface has gone.
func (e *end) cut() error {
	if link := e.outlet.plug(nil, device.DefaultMTU); link != nil {
		if err := link.Close(); err != nil {
			return fmt.Errorf("remove the interface of the job's network: %w", err)
		}
	}
	return nil
}
