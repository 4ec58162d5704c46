package replica

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// aboutPeer reports whether a line is about a connection to another peer. raft
// writes several of these a second while that peer is away. Package replica
// itself says once that it is away, and when it is back.
func aboutPeer(message string) bool {
	for _, beginning := range []string{
		"failed to appendEntries to", "failed to heartbeat to", "failed to make requestVote RPC", "failed to pipeline appendEntries",
		"failed to start pipeline replication to", "failed to decode incoming command", "failed to flush response", "failed to get conn", "peer has newer term",
	} {
		if strings.HasPrefix(message, beginning) {
			return true
		}
	}
	return false
}

// bridge passes raft's log lines on to slog.
func bridge(logger *slog.Logger) hclog.Logger {
	source := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Level: hclog.Debug, Output: io.Discard})
	source.RegisterSink(sink{logger})
	return source
}

type sink struct {
	logger *slog.Logger
}

func (s sink) Accept(name string, level hclog.Level, message string, args ...any) {
	converted := slog.LevelDebug
	switch level {
	case hclog.Warn: // every election is one: nothing for an operator to do
		converted = slog.LevelInfo
	case hclog.Error:
		converted = slog.LevelError
		if aboutPeer(message) {
			converted = slog.LevelDebug
		}
	}
	ctx := context.Background()
	if !s.logger.Enabled(ctx, converted) {
		return
	}
	attributes := []any{"from", name}
	for i := 0; i+1 < len(args); i += 2 {
		value := args[i+1]
		if format, ok := value.(hclog.Format); ok && len(format) > 0 {
			value = fmt.Sprintf(fmt.Sprint(format[0]), format[1:]...)
		}
		attributes = append(attributes, strings.ReplaceAll(fmt.Sprint(args[i]), "-", "_"), fmt.Sprint(value))
	}
	s.logger.Log(ctx, converted, message, attributes...)
}
