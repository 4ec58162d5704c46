package traffic

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// This file is the program that the kernel runs for each packet: a leaky bucket, in which
// the level is the moment at which what has passed would be through at the rate.

// way is a direction in which packets go.
type way struct {
	name   string // of the program, by which a later process knows it
	attach ebpf.AttachType
	drop   int32 // what the program answers for a packet that is dropped
	mark   int32 // and for one that passes while the bucket is half full
}

// Answers of a program (linux/bpf.h): on the way out the sender can be told to slow down.
const (
	dropped      = 0
	passed       = 1
	droppedSlow  = 2
	passedSlower = 3
)

var ways = []way{
	{"gleaner_out", ebpf.AttachCGroupInetEgress, droppedSlow, passedSlower},
	{"gleaner_in", ebpf.AttachCGroupInetIngress, dropped, passed},
}

// setting is what the programs read, in one table.
type setting struct {
	CostPerByte uint64 // in 1/1024 ns; 0 = all passes
	DepthNS     uint64 // how far the level may be ahead
}

// depthNS is how much may pass at once: a quarter of a second of the rate. With less, TCP
// does not come near the rate where packets take no time.
const depthNS = 250_000_000

// costShift is by how many bits a cost is finer than a nanosecond.
const costShift = 10

func settingOf(rate uint64) setting {
	return setting{CostPerByte: max(1_000_000_000<<costShift/max(rate, 1), 1), DepthNS: depthNS}
}

// load makes the programs of both ways, with one table of settings and one of exceptions.
func load(rate uint64) (programs []*ebpf.Program, settings, excepted *ebpf.Map, err error) {
	defer func() {
		if err != nil {
			closeAll(programs, settings, excepted)
			err = fmt.Errorf("%w: %w", ErrUnsupported, err)
		}
	}()
	if settings, err = ebpf.NewMap(&ebpf.MapSpec{Name: "gleaner_rate", Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1}); err != nil {
		return nil, nil, nil, err
	}
	if err = settings.Put(uint32(0), settingOf(rate)); err != nil {
		return nil, settings, nil, err
	}
	if excepted, err = ebpf.NewMap(&ebpf.MapSpec{Name: "gleaner_but", Type: ebpf.Hash, KeySize: 8, ValueSize: 4, MaxEntries: maxExcepted}); err != nil {
		return nil, settings, nil, err
	}
	for _, w := range ways {
		program, loadErr := loadWay(w, settings, excepted)
		if loadErr != nil {
			return programs, settings, excepted, loadErr
		}
		programs = append(programs, program)
	}
	return programs, settings, excepted, nil
}

// loadWay makes the program of one way, with a level of its own. Its maps live as long as
// it does.
func loadWay(w way, settings, excepted *ebpf.Map) (*ebpf.Program, error) {
	level, err := ebpf.NewMap(&ebpf.MapSpec{Name: "gleaner_level", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return nil, err
	}
	defer level.Close()
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: w.name, Type: ebpf.CGroupSKB, AttachType: w.attach, License: "Apache-2.0",
		Instructions: instructions(w, settings.FD(), excepted.FD(), level.FD()),
	})
}

// Fields of struct __sk_buff (linux/bpf.h).
const (
	packetBytes  = 0
	packetDevice = 40
	loopback     = 1 // its number in each network namespace
)

// instructions is the program. Two processors that fill an empty bucket at the same moment
// may count one of their packets only: that is worth less than a lock.
func instructions(w way, settings, excepted, level int) asm.Instructions {
	const key, id = -16, -8 // on the stack
	return asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R2, asm.R6, packetDevice, asm.Word),
		asm.JEq.Imm(asm.R2, loopback, "pass"),
		asm.LoadMem(asm.R7, asm.R6, packetBytes, asm.Word),
		// Of which group is it?
		asm.FnSkbCgroupId.Call(),
		asm.StoreMem(asm.RFP, id, asm.R0, asm.DWord),
		asm.LoadMapPtr(asm.R1, excepted),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, id),
		asm.FnMapLookupElem.Call(),
		asm.JNE.Imm(asm.R0, 0, "pass"),
		// What does it cost?
		asm.StoreImm(asm.RFP, key, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, settings),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, key),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"),
		asm.LoadMem(asm.R2, asm.R0, 0, asm.DWord),
		asm.JEq.Imm(asm.R2, 0, "pass"),
		asm.LoadMem(asm.R9, asm.R0, 8, asm.DWord),
		asm.Mul.Reg(asm.R7, asm.R2),
		asm.RSh.Imm(asm.R7, costShift),
		asm.LoadMapPtr(asm.R1, level),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, key),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"),
		asm.Mov.Reg(asm.R8, asm.R0),
		asm.FnKtimeGetNs.Call(),
		// How far is the level ahead?
		asm.LoadMem(asm.R1, asm.R8, 0, asm.DWord),
		asm.JGE.Reg(asm.R1, asm.R0, "ahead"),
		asm.StoreMem(asm.R8, 0, asm.R0, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.Sub.Reg(asm.R1, asm.R0).WithSymbol("ahead"),
		asm.JGT.Reg(asm.R1, asm.R9, "drop"),
		asm.StoreXAdd(asm.R8, asm.R7, asm.DWord),
		asm.RSh.Imm(asm.R9, 1),
		asm.JGT.Reg(asm.R1, asm.R9, "mark"),
		asm.Mov.Imm(asm.R0, passed).WithSymbol("pass"),
		asm.Return(),
		asm.Mov.Imm(asm.R0, w.mark).WithSymbol("mark"),
		asm.Return(),
		asm.Mov.Imm(asm.R0, w.drop).WithSymbol("drop"),
		asm.Return(),
	}
}
