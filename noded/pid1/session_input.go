package pid1

import "time"

// endOfFile is the character by which a terminal ends its input: control-D.
const endOfFile = 4

const (
	firstEndPause = 50 * time.Millisecond
	lastEndPause  = time.Second
	// maxEnds is far less than what a terminal keeps for a program that does not
	// read, so that writing it never waits.
	maxEnds = 1024
)

// endTerminal tells the task that its input has ended, as long as it runs and
// nobody else attaches. Unlike a pipe, a terminal has no lasting end: the
// character ends one read. And if a program changes the terminal before it
// reads, as a shell with line editing does when it begins, the kernel turns a
// waiting end into a zero byte. So it is written repeatedly.
func (s *session) endTerminal(turn uint32) {
	pause := firstEndPause
	for range maxEnds {
		if !s.hasInputOf(turn) {
			return
		}
		_, _ = s.stdin.Write([]byte{endOfFile}) // fails when the task has ended
		time.Sleep(pause)
		pause = min(2*pause, lastEndPause)
	}
}

// hasInputOf says whether the task runs and nobody has attached since a client.
func (s *session) hasInputOf(turn uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exited == nil && s.clientTurn == turn
}
