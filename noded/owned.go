package noded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/noded/boottime"
	"github.com/gleaner-hpc/gleaner/noded/owner"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file carries out what package owner decides: what the owner of the node says there
// holds with every controller away.

// ledgerFile is what is kept about the owner, in the state directory.
const ledgerFile = "owner"

// maxLedgerBytes bounds what is read of it.
const maxLedgerBytes = 64 << 20

// owned is what the owner says on the node. All of it but writing is guarded by agent.mu.
type owned struct {
	owner   *owner.Owner
	guests  []*guest   // of the present reclaim, in the order in which they were told
	writing sync.Mutex // held while the ledger is written
	written uint64     // number of the ledger on the disk
	file    string     // "" = nothing is kept
}

// guest is one guest of a reclaim on the node.
type guest struct {
	key     registry.Key
	message *pb.ReclaimedGuest
	freed   time.Duration // boot time at which its hardware was free; 0 = it is not
}

func ownerTime() owner.Time {
	return owner.Time{Boot: boottime.Now(), WallMS: time.Now().UnixMilli()}
}

// adoptOwned takes over what an earlier daemon kept about the owner.
func (a *agent) adoptOwned(stateDir string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.owned.file = filepath.Join(stateDir, ledgerFile)
	kept, err := readLedger(a.owned.file)
	if err != nil {
		a.log.Error("what was known of the node's owner cannot be read: until a controller tells it, only root reclaims this node here; if the owner had reclaimed it here, type greclaim --local again", "error", err)
	}
	a.owned.owner = owner.New(kept, a.machine.bootID, ownerTime())
	a.owned.written = kept.GetNumber()
	if a.owned.owner.Held() {
		a.log.Info("the owner of the node has taken it back here, and no guest runs until it is released")
	}
}

func readLedger(path string) (*pb.OwnerLedger, error) {
	data, err := bundle.ReadRegular(path, maxLedgerBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	const sumBytes = 4
	end := len(data) - sumBytes
	if end < 0 || binary.BigEndian.Uint32(data[end:]) != crc32.Checksum(data[:end], crc32.MakeTable(crc32.Castagnoli)) {
		return nil, fmt.Errorf("%s: %w: its checksum is wrong", path, bundle.ErrDamaged)
	}
	kept := new(pb.OwnerLedger)
	if err := proto.Unmarshal(data[:end], kept); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, bundle.ErrDamaged, err)
	}
	return kept, nil
}

// ownersWord is what the owner says about an allocation. The caller holds a.mu.
func (a *agent) ownersWord(order *pb.StartAlloc, _ registry.Time) *pb.HoldAlloc {
	return a.owned.owner.Word(a.owned.owner.Guest(order), ownerTime())
}

// changeOwned changes what the owner says, carries that out, and keeps it on the disk. The
// hardware is the owner's before the disk has answered. Controllers are told after it has:
// a number that they have heard must never be given to something else.
func (a *agent) changeOwned(change func(o *owner.Owner, now owner.Time) bool) {
	a.mu.Lock()
	held := a.owned.owner.Held()
	if !change(a.owned.owner, ownerTime()) {
		a.mu.Unlock()
		return
	}
	a.noteOwned(held)
	a.sayLocked()
	a.mu.Unlock()
	a.keepLedger()
}

// noteOwned follows the guests of a reclaim, from its beginning to its end. The caller
// holds a.mu.
func (a *agent) noteOwned(held bool) {
	now := a.owned.owner.Held()
	switch {
	case now && !held:
		a.owned.guests = nil
		a.log.Info("the owner of the node takes it back here", "within_ms", (a.owned.owner.Deadline() - boottime.Now()).Milliseconds())
	case held && !now:
		a.log.Info("the node is lent again, as far as its owner has said here")
	}
	if now {
		a.takeGuests()
	}
}

// sayLocked passes on what the owner says to the supervisors. The caller holds a.mu.
func (a *agent) sayLocked() { a.carryOut(a.registry.Said(timeNow())) }

// tellOwned tells the controller of the present session. The caller holds a.mu.
func (a *agent) tellOwned() {
	if told := a.toldOwned(); told != nil {
		a.sendLocked(&pb.NodeMessage{What: &pb.NodeMessage_NodeHolds{NodeHolds: told}})
	}
}

// toldOwned is what controllers are told; nil while the disk does not have it: then
// keepLedger tells them. The caller holds a.mu.
func (a *agent) toldOwned() *pb.NodeHolds {
	if a.owned.owner.Number() != a.owned.written {
		return nil
	}
	return a.owned.owner.Tell(ownerTime())
}

// keepLedger brings what the owner says to the disk, and then tells the controllers. What
// cannot be written now is with the next change, or when the daemon looks again.
func (a *agent) keepLedger() {
	a.owned.writing.Lock()
	defer a.owned.writing.Unlock()
	a.mu.Lock()
	ledger, file := a.owned.owner.Ledger(), a.owned.file
	a.mu.Unlock()
	if file != "" {
		if err := writeLedger(file, ledger); err != nil {
			a.log.Error("what the owner of the node says cannot be kept: the controllers are not told, and a restart of gnoded would forget it; make room on the disk of state_dir", "error", err)
			return
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.owned.written = ledger.GetNumber()
	a.tellOwned()
}

// keepLedgerAgain writes what could not be written before.
func (a *agent) keepLedgerAgain() {
	a.mu.Lock()
	behind := a.owned.owner.Number() != a.owned.written
	a.mu.Unlock()
	if behind {
		a.keepLedger()
	}
}

// writeLedger puts it in place in one step, and on the disk.
func writeLedger(path string, ledger *pb.OwnerLedger) error {
	data, err := proto.Marshal(ledger)
	if err != nil {
		return err
	}
	dir := bundle.Dir(filepath.Dir(path))
	draft := filepath.Base(path) + ".new"
	if err := dir.WriteFile(draft, bundle.Seal(data)); err != nil {
		return err
	}
	if err := os.Rename(dir.Path(draft), path); err != nil {
		return err
	}
	directory, err := os.Open(string(dir))
	if err != nil {
		return err
	}
	defer directory.Close()
	return directory.Sync()
}

// passHold queues what the owner says for a supervisor. The caller holds a.mu.
func (a *agent) passHold(p *alloc, word *pb.HoldAlloc) {
	came := timeNow()
	p.putFirst(call{name: "hold for the owner", until: true, do: func(ctx context.Context, client pb.ShimClient) error {
		_, err := client.Hold(ctx, registry.WaitedHold(word, timeNow().Boot-came.Boot))
		return err
	}})
}

// heardHold takes what a supervisor says about the owner's hold. The caller holds a.mu.
func (a *agent) heardHold(p *alloc, said *pb.ShimHold) {
	a.noteGuest(p)
	if a.owned.owner.Raise(said.GetNumber(), ownerTime()) {
		go a.keepLedger()
	}
	a.sayLocked()
}
