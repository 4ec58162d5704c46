package forward

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// pair is a port inside the job and the one that leads there.
type pair struct{ inside, local uint16 }

// maxPorts is how many one command forwards.
const maxPorts = 64

// parsePair reads PORT or PORT:LOCAL.
func parsePair(text string) (pair, error) {
	inside, local, both := strings.Cut(text, ":")
	if !both {
		local = inside
	}
	var p pair
	for _, part := range []struct {
		text string
		into *uint16
	}{{inside, &p.inside}, {local, &p.local}} {
		number, err := strconv.ParseUint(part.text, 10, 16)
		if err != nil || number == 0 {
			return p, option.Fail(1, "%s is no port: type PORT or PORT:LOCAL, numbers from 1 to 65535, as in 8888 or 8888:9999", console.Quoted(text))
		}
		*part.into = uint16(number)
	}
	return p, nil
}

// parsePairs reads all of them; a local port is used once.
func parsePairs(texts []string) ([]pair, error) {
	if len(texts) > maxPorts {
		return nil, option.Fail(1, "%d ports are too many: at most %d", len(texts), maxPorts)
	}
	var pairs []pair
	used := map[uint16]bool{}
	for _, text := range texts {
		p, err := parsePair(text)
		if err != nil {
			return nil, err
		}
		if used[p.local] {
			return nil, option.Fail(1, "local port %d is named twice: give one of them another, as in %d:%d", p.local, p.inside, p.local+1)
		}
		used[p.local] = true
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// listen opens the local ports, all or none.
func listen(address string, pairs []pair) (listeners []net.Listener, err error) {
	at, err := netip.ParseAddr(address)
	if err != nil {
		return nil, option.Fail(1, "--%s=%s is no address of this host: type one as 127.0.0.1", optAddress, console.Quoted(address))
	}
	defer func() {
		if err != nil {
			for _, l := range listeners {
				l.Close()
			}
		}
	}()
	for _, p := range pairs {
		l, err := net.Listen("tcp", netip.AddrPortFrom(at, p.local).String())
		if err != nil {
			return listeners, option.Fail(1, "%s", cannotListen(at, p, err))
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// cannotListen says why a local port cannot be opened, and what to type instead.
func cannotListen(at netip.Addr, p pair, err error) string {
	where := netip.AddrPortFrom(at, p.local)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Sprintf("%s is in use on this host: choose another local port, as in %d:%d", where, p.inside, another(p.local))
	case errors.Is(err, unix.EACCES):
		return fmt.Sprintf("%s may be opened by root only: choose a local port from 1024 on, as in %d:%d", where, p.inside, another(p.local))
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Sprintf("%s is no address of this host: leave out --%s for 127.0.0.1", at, optAddress)
	}
	return fmt.Sprintf("%s cannot be opened: %v", where, console.Reason(err))
}

// another is a port to propose in place of one.
func another(local uint16) uint16 {
	const above = 10000
	if local > 65535-above {
		return local - above
	}
	return local + above
}
