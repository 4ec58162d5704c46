package client

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Sleep waits for the next attempt, or until ctx ends.
func Sleep(ctx context.Context, pace backoff.BackOff) { Pause(ctx, pace.NextBackOff()) }

// Pause waits so long, or until ctx ends.
func Pause(ctx context.Context, length time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(length):
	}
}
