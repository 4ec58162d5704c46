package noded

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/boottime"
	"github.com/gleaner-hpc/gleaner/noded/memory"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// hostLoad is what this host does now, or nil if the kernel does not say.
func hostLoad() *pb.HostLoad {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return nil
	}
	available, err := memory.Available()
	if err != nil {
		return nil
	}
	return &pb.HostLoad{LoadHundredths: hundredths(uint64(info.Loads[0])), AvailableMemoryBytes: available, BootMs: time.Now().Add(-boottime.Now()).Round(time.Second).UnixMilli()}
}

// hundredths is a load average of sysinfo(2), which counts in 65536ths, in hundredths.
func hundredths(load uint64) uint32 {
	return uint32(min(load*100>>16, 1<<32-1))
}
