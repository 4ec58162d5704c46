package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"reflect"
	"testing"
)

// farthest is how far the first lab's part of the usage is from its share, at
// most, from a day after it came until one of the labs has nothing to start.
func farthest(t *testing.T, seed uint64, weight uint32) float64 {
	t.Helper()
	samples, err := run(seed, weight)
	if err != nil {
		t.Fatal(err)
	}
	off, seen := 0.0, 0
	for i := range samples {
		s := &samples[i]
		if s.atMS < headStart+24*hour || s.waiting[0] == 0 || s.waiting[1] == 0 {
			continue
		}
		seen++
		off = max(off, math.Abs(s.part(0)-0.6))
	}
	if weight > 0 && seen < 10 {
		t.Fatalf("seed %d: both labs compete in %d samples only", seed, seen)
	}
	if weight == 0 && seen == 0 {
		return 1 // the second lab's jobs all went first
	}
	return off
}

// TestUseConvergesToTheShares: within a day of competing both labs have what
// they were promised, to three hundredths. Without the weight they have not.
func TestUseConvergesToTheShares(t *testing.T) {
	for seed := range uint64(3) {
		if off := farthest(t, seed, 1000); off > 0.03 {
			t.Errorf("seed %d: physics's part is %.3f away from its share", seed, off)
		}
	}
	if off := farthest(t, 1, 0); off < 0.1 {
		t.Errorf("without a weight physics's part is only %.3f away from its share: this shows nothing", off)
	}
}

// TestSeedReplays: the same seed is the same run, and its picture is sound.
func TestSeedReplays(t *testing.T) {
	samples, err := run(7, 1000)
	if err != nil {
		t.Fatal(err)
	}
	again, err := run(7, 1000)
	if err != nil || !reflect.DeepEqual(samples, again) {
		t.Error("another run of one seed went otherwise", err)
	}
	var picture bytes.Buffer
	if err := draw(&picture, samples); err != nil {
		t.Fatal(err)
	}
	decoder := xml.NewDecoder(&picture)
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
