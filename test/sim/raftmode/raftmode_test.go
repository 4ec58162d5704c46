package raftmode

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		c := start(t, 1, 3)
		t.Log("three controllers after", time.Since(begin))
		c.stop()
	})
}
