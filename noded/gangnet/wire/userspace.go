package wire

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"

	"github.com/gleaner-hpc/gleaner/noded/gangnet"
)

// userspace is wireguard-go. Every packet passes through this process.
type userspace struct {
	log    *slog.Logger
	outlet *outlet
	device *device.Device
}

func (u *userspace) begin(key []byte, port uint16) (uint16, error) {
	logger := &device.Logger{
		Verbosef: device.DiscardLogf,
		Errorf:   func(format string, args ...any) { u.log.Warn("wireguard: " + fmt.Sprintf(format, args...)) },
	}
	u.outlet = newOutlet(device.DefaultMTU)
	u.device = device.NewDevice(u.outlet, conn.NewStdNetBind(), logger)
	settings := "private_key=" + hex.EncodeToString(key) + "\n"
	if port != 0 {
		settings += fmt.Sprintf("listen_port=%d\n", port)
	}
	if err := errors.Join(u.device.IpcSet(settings), u.device.Up()); err != nil {
		return 0, err
	}
	var taken uint64
	err := u.each(func(key, value string) (err error) {
		if key == "listen_port" {
			taken, err = strconv.ParseUint(value, 10, 16)
		}
		return err
	})
	return uint16(taken), err
}

func (u *userspace) meet(peers []gangnet.Peer) error {
	return u.device.IpcSet(gangnet.Settings(peers))
}

func (u *userspace) move(p gangnet.Peer) error {
	return u.device.IpcSet(fmt.Sprintf("public_key=%x\nupdate_only=true\nendpoint=%s\npersistent_keepalive_interval=%d\n", p.Key, p.Endpoint, gangnet.KeepAliveS))
}

func (u *userspace) heard() (map[string]int64, error) {
	all, peer := map[string]int64{}, ""
	return all, u.each(func(key, value string) error {
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
func (u *userspace) each(take func(key, value string) error) error {
	said, err := u.device.IpcGet()
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

func (u *userspace) open(o *gangnet.Opened) error {
	if err := u.cut(); err != nil {
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
	u.outlet.plug(link, o.MTU)
	return nil
}

func (u *userspace) cut() error {
	if link := u.outlet.plug(nil, device.DefaultMTU); link != nil {
		if err := link.Close(); err != nil {
			return fmt.Errorf("remove the interface of the job's network: %w", err)
		}
	}
	return nil
}

func (u *userspace) close() error {
	u.device.Close() // and the outlet with it
	return nil
}
