package checkpoint

import (
	"path/filepath"
	"testing"

	"github.com/checkpoint-restore/go-criu/v8/crit/images/fdinfo"
	"github.com/checkpoint-restore/go-criu/v8/crit/images/fown"
	"github.com/checkpoint-restore/go-criu/v8/crit/images/memfd"
	"github.com/checkpoint-restore/go-criu/v8/crit/images/mm"
	"github.com/checkpoint-restore/go-criu/v8/crit/images/vma"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// The seal against writing is replaced where the memory is mapped, and nowhere else.
func TestSealsOfMappedMemory(t *testing.T) {
	dir := t.TempDir()
	number := func(n uint32) *uint32 { return &n }
	owner := &fown.FownEntry{Uid: number(0), Euid: number(0), Signum: number(0), PidType: number(0), Pid: number(0)}
	var files, inodes []proto.Message
	const all = unix.F_SEAL_SHRINK | unix.F_SEAL_WRITE
	for id := range uint32(3) {
		files = append(files, &fdinfo.FileEntry{Type: fdinfo.FdTypes_MEMFD.Enum(), Id: number(id + 1), Memfd: &memfd.MemfdFileEntry{
			Id: number(id + 1), Flags: number(0), Pos: set(uint64(0)), Fown: owner, InodeId: number(id + 10),
		}})
		seals := uint32(all)
		if id == 2 {
			seals = unix.F_SEAL_SHRINK
		}
		inodes = append(inodes, &memfd.MemfdInodeEntry{
			Name: set("m"), Uid: number(0), Gid: number(0), Size: set(uint64(1)), Shmid: number(id), Seals: &seals, InodeId: set(uint64(id + 10)),
		})
	}
	writeImage(t, filepath.Join(dir, filesImage), files...)
	writeImage(t, filepath.Join(dir, "memfd.img"), inodes...)
	area := func(file uint64) *vma.VmaEntry {
		return &vma.VmaEntry{Start: set(uint64(0)), End: set(uint64(0)), Pgoff: set(uint64(0)), Shmid: &file, Prot: number(0), Flags: number(0), Status: number(0), Fd: set(int64(-1))}
	}
	zero := set(uint64(0))
	writeImage(t, filepath.Join(dir, "mm-1.img"), &mm.MmEntry{
		MmStartCode: zero, MmEndCode: zero, MmStartData: zero, MmEndData: zero, MmStartStack: zero, MmStartBrk: zero, MmBrk: zero,
		MmArgStart: zero, MmArgEnd: zero, MmEnvStart: zero, MmEnvEnd: zero, ExeFileId: number(0), Vmas: []*vma.VmaEntry{area(1), area(3)},
	})
	for range 2 { // the second time nothing is to be done
		if err := mendSeals(dir); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []uint32{unix.F_SEAL_SHRINK | unix.F_SEAL_FUTURE_WRITE, all, unix.F_SEAL_SHRINK} {
		if got := entriesOf[memfd.MemfdInodeEntry](t, filepath.Join(dir, "memfd.img"))[i].GetSeals(); got != want {
			t.Errorf("memory %d has the seals %#x, not %#x", i, got, want)
		}
	}
}
