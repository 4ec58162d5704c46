package checkpoint

import (
	"fmt"
	"path/filepath"
	"testing"

	core_x86 "github.com/checkpoint-restore/go-criu/v8/crit/images/core-x86"
	criu_core "github.com/checkpoint-restore/go-criu/v8/crit/images/criu-core"
	"golang.org/x/sys/unix"
)

// Calls that CRIU lets fail are made once more, and no others.
func TestCallsAreMadeAgain(t *testing.T) {
	const interrupted, at = -int64(unix.EINTR), 0x1000
	for i, row := range []struct {
		call, result             int64
		first, second, rdx, last uint64
		compat, again            bool
	}{
		{call: callPoll, result: interrupted, again: true},
		{call: callPoll, result: 1},
		{call: callPoll, result: interrupted, compat: true},
		{call: callFutex, result: interrupted, again: true},
		{call: callNanosleep, result: interrupted, first: 5, again: true},
		{call: callNanosleep, result: interrupted, first: 5, second: 5, again: true},
		{call: callNanosleep, result: interrupted, first: 5, second: 6},
		{call: callClockNanosleep, result: interrupted, rdx: 5, again: true},
		{call: callClockNanosleep, result: interrupted, rdx: 5, last: 5, again: true},
		{call: callClockNanosleep, result: interrupted, rdx: 5, last: 6},
		{call: unix.SYS_EPOLL_WAIT, result: interrupted},
		{call: -1, result: interrupted},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, fmt.Sprintf("core-%d.img", i+1))
		zero, mode := func() *uint64 { return set(uint64(0)) }, core_x86.UserX86RegsMode_NATIVE
		if row.compat {
			mode = core_x86.UserX86RegsMode_COMPAT
		}
		writeImage(t, path, &criu_core.CoreEntry{Mtype: criu_core.CoreEntry_X86_64.Enum(), ThreadInfo: &core_x86.ThreadInfoX86{
			ClearTidAddr: zero(), Fpregs: &core_x86.UserX86FpregsEntry{
				Cwd: set(uint32(0)), Swd: set(uint32(0)), Twd: set(uint32(0)), Fop: set(uint32(0)), Rip: zero(), Rdp: zero(), Mxcsr: set(uint32(0)), MxcsrMask: set(uint32(0)),
			},
			Gpregs: &core_x86.UserX86RegsEntry{
				R15: zero(), R14: zero(), R13: zero(), R12: zero(), Bp: zero(), Bx: zero(), R11: zero(), R9: zero(), R8: zero(), Cx: zero(),
				Cs: zero(), Flags: zero(), Sp: zero(), Ss: zero(), FsBase: zero(), GsBase: zero(), Ds: zero(), Es: zero(), Fs: zero(), Gs: zero(),
				Ax: set(uint64(row.result)), OrigAx: set(uint64(row.call)), Ip: set(uint64(at)), Mode: &mode,
				Di: set(row.first), Si: set(row.second), Dx: set(row.rdx), R10: set(row.last),
			},
		}})
		for range 2 { // the second time nothing is to be done
			if err := restartCalls(dir); err != nil {
				t.Fatal(err)
			}
		}
		want, ip := row.result, uint64(at)
		if row.again {
			want, ip = row.call, at-lengthOfCall
		}
		got := entriesOf[criu_core.CoreEntry](t, path)[0].GetThreadInfo().GetGpregs()
		if int64(got.GetAx()) != want || got.GetIp() != ip {
			t.Errorf("row %d: ax %d, ip %#x", i, int64(got.GetAx()), got.GetIp())
		}
	}
}
