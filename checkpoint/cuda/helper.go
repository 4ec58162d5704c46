package cuda

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Word is the first argument of a program that calls Main.
const Word = "cuda-helper"

// Calls, by their names in the driver's API. callHello loads the library.
const (
	callHello      = "hello"
	callState      = "cuCheckpointProcessGetState"
	callLock       = "cuCheckpointProcessLock"
	callCheckpoint = "cuCheckpointProcessCheckpoint"
	callRestore    = "cuCheckpointProcessRestore"
	callUnlock     = "cuCheckpointProcessUnlock"
)

// longestMessage bounds a message between a Helper and its process: the GPUs
// of a machine, with room.
const longestMessage = 64 << 10

// request is one line to the helper process, in JSON.
type request struct {
	ID      uint64        `json:"id"`
	Call    string        `json:"call"`
	PID     int           `json:"pid,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"` // of callLock
	GPUs    [][2]string   `json:"gpus,omitempty"`    // of callRestore: old, new
	Library string        `json:"library,omitempty"` // of callHello
}

// answer is one line back. Only one of its error fields is set.
type answer struct {
	ID       uint64 `json:"id"`
	State    State  `json:"state,omitempty"`
	Code     int32  `json:"code,omitempty"` // the driver's
	Name     string `json:"name,omitempty"`
	Error    string `json:"error,omitempty"`
	NoDriver bool   `json:"no_driver,omitempty"` // with Error: it wraps ErrNoDriver
	TooOld   bool   `json:"too_old,omitempty"`   // with Error: it wraps ErrTooOld
	Version  int32  `json:"version,omitempty"`   // of callHello: 12080 is CUDA 12.8
}

// Main is the helper process, which "PROGRAM cuda-helper" runs. Its standard
// input is a socket, over which requests come one after another. It ends
// when the other end is closed.
func Main() error {
	conn, err := net.FileConn(os.Stdin)
	if err != nil {
		return fmt.Errorf("the helper for the CUDA driver is started by gnoded, not by hand: %w", err)
	}
	defer conn.Close()
	go endWithPeer(int32(os.Stdin.Fd()))
	return serve(conn)
}

// endWithPeer ends the process when the other end of its socket is closed, also in the
// middle of a call that hangs: whoever asked was killed, and nobody else knows of it.
func endWithPeer(socket int32) {
	for {
		watched := []unix.PollFd{{Fd: socket, Events: unix.POLLRDHUP}}
		if _, err := unix.Poll(watched, -1); err == nil && watched[0].Revents != 0 {
			os.Exit(0)
		}
	}
}

func serve(conn io.ReadWriter) error {
	runtime.LockOSThread() // the driver sees one thread
	lines := bufio.NewReaderSize(conn, longestMessage)
	var driver *library
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read what to ask the CUDA driver: %w", err)
		}
		var asked request
		if err := json.Unmarshal(line, &asked); err != nil {
			return fmt.Errorf("read what to ask the CUDA driver: %w", err)
		}
		said := answer{ID: asked.ID}
		switch {
		case asked.Call == callHello:
			if driver, err = openLibrary(asked.Library); err == nil && driver.version != nil {
				_ = driver.version(&said.Version)
			}
		case driver == nil:
			err = errors.New("the library is not loaded")
		default:
			said.Code, said.State, err = driver.do(&asked)
			if said.Code != 0 {
				said.Name = driver.name(said.Code)
			}
		}
		if err != nil {
			said.Error, said.NoDriver, said.TooOld = err.Error(), errors.Is(err, ErrNoDriver), errors.Is(err, ErrTooOld)
		}
		out, err := json.Marshal(&said)
		if err != nil {
			return fmt.Errorf("answer what the CUDA driver said: %w", err)
		}
		if _, err := conn.Write(append(out, '\n')); err != nil {
			return fmt.Errorf("answer what the CUDA driver said: %w", err)
		}
	}
}
