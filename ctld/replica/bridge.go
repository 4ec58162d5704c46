package replica

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

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
		attributes = append(attributes, fmt.Sprint(args[i]), fmt.Sprint(value))
	}
	s.logger.Log(ctx, converted, message, attributes...)
}
