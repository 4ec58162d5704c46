package budget

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func take(t *testing.T, b *Budget, who string, bytes int64) *Share {
	t.Helper()
	share, err := b.Take(t.Context(), who, bytes)
	if err != nil {
		t.Fatal(err)
	}
	return share
}

func busy(t *testing.T, b *Budget, who string, bytes int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := b.Take(ctx, who, bytes); !errors.Is(err, ErrBusy) {
		t.Errorf("%s asks for %d: %v", who, bytes, err)
	}
}

// TestNobodyLocksOutOthers: who holds much waits, who holds nothing gets a message through,
// even when all of it is held.
func TestNobodyLocksOutOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &Budget{Each: 10, All: 20}
		if _, err := b.Take(t.Context(), "a", 11); !errors.Is(err, ErrTooLarge) {
			t.Errorf("more than anybody may hold: %v", err)
		}
		first := take(t, b, "a", 6)
		take(t, b, "a", 4)
		busy(t, b, "a", 1)
		take(t, b, "b", 9)
		late := take(t, b, "c", 9) // over All: it held nothing
		busy(t, b, "c", 1)
		if b.Held() != 28 {
			t.Errorf("%d are held", b.Held())
		}
		first.Shrink(2)
		first.Shrink(5) // not more again
		if b.Held() != 24 {
			t.Errorf("%d are held", b.Held())
		}
		busy(t, b, "a", 1) // over All
		late.Release()
		late.Release()
		take(t, b, "a", 4)
		if b.Held() != 19 {
			t.Errorf("%d are held", b.Held())
		}
	})
}

// TestInTurn: what waits is served in the order in which it came, also the large.
func TestInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &Budget{Each: 10, All: 100}
		all := take(t, b, "a", 10)
		var order []int64
		for _, bytes := range []int64{8, 1, 3} {
			go func() {
				share, err := b.Take(t.Context(), "a", bytes)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, bytes)
				time.Sleep(time.Second)
				share.Release()
			}()
			synctest.Wait()
		}
		all.Shrink(4) // 6 are free: the first waits for more, and the others for it
		synctest.Wait()
		if len(order) > 0 {
			t.Errorf("%v did not wait", order)
		}
		all.Release()
		time.Sleep(time.Minute)
		if fmt.Sprint(order) != "[8 1 3]" && fmt.Sprint(order) != "[1 8 3]" { // the first two were granted together
			t.Errorf("served as %v", order)
		}
		if b.Held() != 0 || len(b.held) != 0 || len(b.waiting) != 0 {
			t.Errorf("left: %d, %v, %d wait", b.Held(), b.held, len(b.waiting))
		}
	})
}

// TestBounds: whatever is asked for and given back, the bounds hold, and all is given back.
func TestBounds(t *testing.T) {
	b := &Budget{Each: 50, All: 120}
	var wait sync.WaitGroup
	for worker := range 12 {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 7))
			for range 200 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(300))*time.Microsecond)
				share, err := b.Take(ctx, fmt.Sprint(worker%4), random.Int64N(51))
				cancel()
				if err != nil {
					continue
				}
				b.mu.Lock()
				if b.all > b.All+4*b.Each {
					t.Errorf("%d are held", b.all)
				}
				for who, held := range b.held {
					if held > b.Each {
						t.Errorf("%s holds %d", who, held)
					}
				}
				b.mu.Unlock()
				share.Shrink(random.Int64N(51))
				share.Release()
			}
		})
	}
	wait.Wait()
	if b.Held() != 0 || len(b.held) != 0 || len(b.waiting) != 0 {
		t.Errorf("left: %d, %v, %d wait", b.Held(), b.held, len(b.waiting))
	}
}
