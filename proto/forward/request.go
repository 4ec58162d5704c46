package forward

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// maxLine bounds a question and an answer.
const maxLine = 1024

// Target is where a connection leads inside a job.
type Target struct {
	Host string `json:"host,omitempty"` // "" = the loopback interface
	Port uint16 `json:"port"`
}

// answer is what the job's end says before the first byte of a connection.
type answer struct {
	Error string `json:"error,omitempty"`
}

// writeLine writes a message as one line of JSON.
func writeLine(w io.Writer, message any) error {
	line, err := json.Marshal(message)
	if err == nil && len(line) >= maxLine {
		err = fmt.Errorf("a message of %d bytes", len(line))
	}
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	return err
}

// readLine reads one, byte by byte: what follows is not for us.
func readLine(r io.Reader, message any) error {
	line, one := make([]byte, 0, maxLine), make([]byte, 1)
	for len(line) < maxLine {
		if _, err := io.ReadFull(r, one); err != nil {
			return err
		}
		if one[0] == '\n' {
			return json.Unmarshal(line, message)
		}
		line = append(line, one[0])
	}
	return fmt.Errorf("a message of more than %d bytes: %w", maxLine, bufio.ErrTooLong)
}
