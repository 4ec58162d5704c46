package pid1

import (
	"sync"
	"syscall"
)

// reaper collects every child that ends. It reports those that were started with it;
// orphans that fell to process 1 are only collected.
type reaper struct {
	mu      sync.Mutex // also keeps a child from being reaped before it is known
	waiting map[int]chan<- syscall.WaitStatus
}

func newReaper() *reaper { return &reaper{waiting: make(map[int]chan<- syscall.WaitStatus)} }

// start calls fork and answers its process id, and a channel that gets the
// status when that process has ended.
func (r *reaper) start(fork func() (int, error)) (int, <-chan syscall.WaitStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return 0, nil, err
	}
	ended := make(chan syscall.WaitStatus, 1)
	r.waiting[pid] = ended
	return pid, ended, nil
}

// reap collects all children that have ended so far.
func (r *reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if ended, ok := r.waiting[pid]; ok {
			delete(r.waiting, pid)
			ended <- status
		}
	}
}
