package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"reflect"
	"testing"
)

// TestUseConvergesToTheShares: from half of the time on in which they compete
// both labs have what they were promised, to three hundredths. Without the
// weight they do not: the second lab's jobs all went first, or the error says
// so.
func TestUseConvergesToTheShares(t *testing.T) {
	for seed := range uint64(3) {
		s, err := simulated(seed, 1000)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := s.report(&out, 0.03); err != nil {
			t.Errorf("seed %d: %v\n%s", seed, err, out.String())
		}
	}
	s, err := simulated(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.report(io.Discard, 0.1); err == nil {
		t.Error("without a weight both labs have their shares too: this shows nothing")
	}
}

// TestSeedReplays: the same seed is the same run, and its picture is sound.
func TestSeedReplays(t *testing.T) {
	s, err := simulated(7, 1000)
	if err != nil {
		t.Fatal(err)
	}
	again, err := simulated(7, 1000)
	if err != nil || !reflect.DeepEqual(s, again) {
		t.Error("another run of one seed went otherwise", err)
	}
	mustBeSound(t, s)
}

// mustBeSound draws the show and reads the picture as XML.
func mustBeSound(t *testing.T, s *show) {
	t.Helper()
	var picture bytes.Buffer
	if err := draw(&picture, s); err != nil {
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
