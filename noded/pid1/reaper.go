package pid1

import (
	"sync"
	"syscall"
)

// reaper collects every child that ends. It reports those that were started with it;
// orphans that fell to process 1 are only collected.
type reaper struct {
	mu      sync.Mutex // also keeps a child from being reaped before it is known
	waiting map[int]chan<- ending
}

// ending is how a child ended, and what it and the children that it waited for used.
type ending struct {
	syscall.WaitStatus
	used syscall.Rusage
}

func newReaper() *reaper { return &reaper{waiting: make(map[int]chan<- ending)} }

// start calls fork and answers its process id, and a channel that gets the
// status when that process has ended.
func (r *reaper) start(fork func() (int, error)) (int, <-chan ending, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return 0, nil, err
	}
	ended := make(chan ending, 1)
	r.waiting[pid] = ended
	return pid, ended, nil
}

// reap collects all children that have ended so far.
func (r *reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var how ending
		pid, err := syscall.Wait4(-1, &how.WaitStatus, syscall.WNOHANG, &how.used)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if ended, ok := r.waiting[pid]; ok {
			delete(r.waiting, pid)
			ended <- how
		}
	}
}
