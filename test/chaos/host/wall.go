package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// maxWallEntries bounds the addresses that one wall knows.
const maxWallEntries = 256

// Verdicts of a classifier (linux/pkt_cls.h).
const (
	verdictPass = 0
	verdictDrop = 2
)

// wall is a filter at a host's way out: for each address, how many of a hundred
// packets to it are lost. So what one host sends another can be cut without
// cutting what comes back.
type wall struct {
	mu      sync.Mutex
	lost    *ebpf.Map // address, as a number -> per cent
	program *ebpf.Program
}

func newWall() (*wall, error) {
	lost, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: maxWallEntries})
	if err != nil {
		return nil, fmt.Errorf("make a wall: %w", err)
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "wall", Type: ebpf.SchedCLS, License: "GPL", Instructions: wallProgram(lost.FD())})
	if err != nil {
		lost.Close()
		return nil, fmt.Errorf("make a wall: %w", err)
	}
	return &wall{lost: lost, program: program}, nil
}

// wallProgram looks at the destination of each IPv4 packet and throws dice.
func wallProgram(table int) asm.Instructions {
	const (
		etherType, destination = 12, 30 // in an Ethernet frame
		typeIPv4               = 0x0800
	)
	return asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1), // LoadAbs takes the packet from R6
		asm.LoadAbs(etherType, asm.Half),
		asm.JNE.Imm(asm.R0, typeIPv4, "pass"),
		asm.LoadAbs(destination, asm.Word),
		asm.StoreMem(asm.RFP, -4, asm.R0, asm.Word),
		asm.LoadMapPtr(asm.R1, table),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"),
		asm.LoadMem(asm.R7, asm.R0, 0, asm.Word),
		asm.FnGetPrandomU32.Call(),
		asm.Mod.Imm(asm.R0, 100),
		asm.JGE.Reg(asm.R0, asm.R7, "pass"),
		asm.Mov.Imm(asm.R0, verdictDrop),
		asm.Return(),
		asm.Mov.Imm(asm.R0, verdictPass).WithSymbol("pass"),
		asm.Return(),
	}
}

// attach puts the wall at the way out of a link.
func (w *wall) attach(handle *netlink.Handle, link netlink.Link) error {
	index := link.Attrs().Index
	if err := handle.QdiscAdd(&netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT},
		QdiscType:  "clsact",
	}); err != nil {
		return fmt.Errorf("attach a wall: %w", err)
	}
	if err := handle.FilterAdd(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: index, Parent: netlink.HANDLE_MIN_EGRESS, Handle: netlink.MakeHandle(0, 1),
			Protocol: unix.ETH_P_ALL, Priority: 1,
		},
		Fd: w.program.FD(), Name: "wall", DirectAction: true,
	}); err != nil {
		return fmt.Errorf("attach a wall: %w", err)
	}
	return nil
}

// lose sets how many of a hundred packets to an address are lost.
func (w *wall) lose(to net.IP, percent uint32) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := binary.BigEndian.Uint32(to.To4())
	if percent == 0 {
		if err := w.lost.Delete(key); !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
		return nil
	}
	return w.lost.Put(key, percent)
}

// Lose loses so many of a hundred packets that this host sends to another; 100
// cuts that way, 0 mends it.
func (h *Host) Lose(to net.IP, percent int) error { return h.wall.lose(to, uint32(percent)) }

// Mend takes the wall away, whatever was lost by it.
func (h *Host) Mend() error {
	w := h.wall
	w.mu.Lock()
	defer w.mu.Unlock()
	var keys []uint32
	var key, percent uint32
	for all := w.lost.Iterate(); all.Next(&key, &percent); {
		keys = append(keys, key)
	}
	for _, key := range keys {
		if err := w.lost.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	return nil
}
