package pid1

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxConfigBytes bounds a Config as JSON: an environment of 1 MiB in base64,
// twice.
const maxConfigBytes = 8 << 20

// WriteOrders writes to w what process 1 reads at OrdersFd: the length of the
// filter, the filter, and the configuration as JSON up to the end.
func WriteOrders(w io.Writer, filter []byte, config *Config) error {
	data, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("encode the job's settings: %w", err)
	}
	head := binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(filter)), uint32(len(filter)))
	for _, part := range [][]byte{append(head, filter...), data} {
		if _, err := w.Write(part); err != nil {
			return fmt.Errorf("tell process 1 what to do: %w", err)
		}
	}
	return nil
}

// ReadOrders reads what WriteOrders wrote. Without a filter there are no
// orders.
func ReadOrders(r io.Reader) (*Filter, *Config, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, nil, fmt.Errorf("read the job's orders: %w", err)
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxFilterBytes {
		return nil, nil, fmt.Errorf("the system-call filter has %d bytes, at most %d are allowed", n, maxFilterBytes)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, nil, fmt.Errorf("read the system-call filter: %w", err)
	}
	filter, err := DecodeFilter(data)
	if err != nil {
		return nil, nil, err
	}
	data, err = io.ReadAll(io.LimitReader(r, maxConfigBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read the job's settings: %w", err)
	}
	if len(data) > maxConfigBytes {
		return nil, nil, fmt.Errorf("the job's settings have more than %d bytes", maxConfigBytes)
	}
	config := new(Config)
	if err := json.Unmarshal(data, config); err != nil {
		return nil, nil, fmt.Errorf("the job's settings: %w", err)
	}
	if b := config.Batch; b != nil && (len(b.Argv) == 0 || b.Argv[0] == "" || b.Stdout == "") {
		return nil, nil, errors.New("the job's settings: the batch script lacks its path or its output")
	}
	return filter, config, nil
}
