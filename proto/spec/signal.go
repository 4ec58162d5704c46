package spec

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxSignal is the highest real-time signal of Linux.
const maxSignal = 64

// ParseSignal reads a signal's name, with or without SIG and in either case,
// or its number.
func ParseSignal(s string) (uint32, error) {
	if n, err := strconv.ParseUint(s, 10, 32); err == nil {
		if n < 1 || n > maxSignal {
			return 0, fmt.Errorf("invalid signal %d: numbers go from 1 to %d", n, maxSignal)
		}
		return uint32(n), nil
	}
	name := strings.ToUpper(s)
	if signal := unix.SignalNum("SIG" + strings.TrimPrefix(name, "SIG")); signal > 0 {
		return uint32(signal), nil
	}
	return 0, fmt.Errorf("invalid signal %q: type a name such as TERM, USR1 or SIGUSR1, or a number", shorten(s))
}

// SignalName is a signal's name without SIG, "USR1", or its number when it has
// no name.
func SignalName(signal uint32) string {
	if signal >= 1 && signal <= maxSignal {
		if name := unix.SignalName(unix.Signal(signal)); name != "" {
			return strings.TrimPrefix(name, "SIG")
		}
	}
	return strconv.FormatUint(uint64(signal), 10)
}
