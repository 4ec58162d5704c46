package pid1

import (
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// ports are those of this node at which tasks of a step may meet. No other job of the
// node was given them.
type ports struct {
	mu    sync.Mutex
	taken []int
}

// take answers a port that no running step was told and nobody listens at; 0 = there is
// none. An allocation that resumed on another node has the ports of its first, which
// may be another's there, hence the look.
func (p *ports) take(first, count int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for port := first; port < first+count && first > 0; port++ {
		if slices.Contains(p.taken, port) || !isFree(port) {
			continue
		}
		p.taken = append(p.taken, port)
		return port
	}
	return 0
}

func isFree(port int) bool {
	listener, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func (p *ports) leave(ports []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = slices.DeleteFunc(p.taken, func(port int) bool { return slices.Contains(ports, port) })
}

// givePort answers step.Port; what it gave goes to held.
func (p *process1) givePort(held *[]int) step.Message {
	port := p.ports.take(p.config.StepPort, p.config.StepPorts)
	if port == 0 {
		return &step.Failed{Text: "this node has no port for the step", Code: 1}
	}
	*held = append(*held, port)
	return &step.PortNumber{Port: uint16(port)}
}
