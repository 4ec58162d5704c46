package main

import (
	"fmt"
	"io"
	"net"
	"time"
)

const (
	// connectPatience bounds how long a way is tried until packets pass.
	connectPatience = 30 * time.Second
	// streamPatience is how much longer than it should a measurement may last.
	streamPatience = 20 * time.Second
	streamBlock    = 128 << 10
	trips          = 2000
)

// measure connects from one namespace to another, and notes how many megabytes a second go
// there, and the median of the microseconds there and back.
func (h *networkHost) measure(from, to *space, address string, c column, stream, trip []measure) error {
	near, far, err := connectSpaces(from, to, net.JoinHostPort(address, measuredPort))
	if err != nil {
		return err
	}
	defer near.Close()
	defer far.Close()
	if err := h.until(near, far); err != nil {
		return err
	}
	microseconds, err := roundTrip(near, far)
	if err != nil {
		return fmt.Errorf("there and back: %w", err)
	}
	rate, err := h.stream(near, far)
	if err != nil {
		return fmt.Errorf("a stream: %w", err)
	}
	for _, m := range stream {
		h.add(m, c, rate/1e6)
	}
	for _, m := range trip {
		h.add(m, c, microseconds)
	}
	return nil
}

func (h *networkHost) until(ends ...net.Conn) error {
	for _, end := range ends {
		if err := end.SetDeadline(time.Now().Add(2*h.lasts + streamPatience)); err != nil {
			return err
		}
	}
	return nil
}

// connectSpaces answers the two ends of a connection.
func connectSpaces(from, to *space, address string) (near, far net.Conn, err error) {
	var listener net.Listener
	err = to.within(func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	defer listener.Close()
	for end := time.Now().Add(connectPatience); near == nil; time.Sleep(20 * time.Millisecond) {
		err = from.within(func() (err error) {
			near, err = net.DialTimeout("tcp", address, time.Second)
			return err
		})
		if err != nil && time.Now().After(end) {
			return nil, nil, fmt.Errorf("no packet passes for %v: %w", connectPatience, err)
		}
	}
	if far, err = listener.Accept(); err != nil {
		near.Close()
	}
	return near, far, err
}

// roundTrip is the median time of a byte there and back, in microseconds.
func roundTrip(near, far net.Conn) (float64, error) {
	echoed := make(chan error, 1)
	go func() {
		_, err := io.CopyN(far, far, trips)
		echoed <- err
	}()
	took := make([]float64, 0, trips)
	var one [1]byte
	for range trips {
		begin := time.Now()
		if _, err := near.Write(one[:]); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(near, one[:]); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(begin).Nanoseconds())/1000)
	}
	return median(took), <-echoed
}

// stream is how many bytes a second arrive. The first tenth of the time does not count.
func (h *networkHost) stream(near, far net.Conn) (float64, error) {
	go func() {
		block := make([]byte, streamBlock)
		for {
			if _, err := near.Write(block); err != nil {
				return // closed by the end of the measurement
			}
		}
	}()
	block, bytes := make([]byte, streamBlock), 0
	begin := time.Now().Add(h.lasts / 10)
	for {
		n, err := far.Read(block)
		if err != nil {
			return 0, err
		}
		now := time.Now()
		if now.Before(begin) {
			continue
		}
		if bytes += n; now.Sub(begin) >= h.lasts {
			return float64(bytes) / now.Sub(begin).Seconds(), nil
		}
	}
}
