package connect

import (
	"fmt"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Logger writes what a kgo client logs to log, one level lower than the client thinks, since
// what it retries by itself is no news to an operator.
func Logger(log zerolog.Logger) kgo.Logger { return logger{log} }

type logger struct{ log zerolog.Logger }

func (l logger) Level() kgo.LogLevel {
	switch level := l.log.GetLevel(); {
	case level <= zerolog.TraceLevel:
		return kgo.LogLevelDebug
	case level <= zerolog.DebugLevel:
		return kgo.LogLevelInfo
	case level <= zerolog.InfoLevel:
		return kgo.LogLevelWarn
	case level <= zerolog.WarnLevel:
		return kgo.LogLevelError
	}
	return kgo.LogLevelNone
}

func (l logger) Log(level kgo.LogLevel, message string, keyvals ...any) {
	event := l.log.Trace()
	switch level {
	case kgo.LogLevelError:
		event = l.log.Warn()
	case kgo.LogLevelWarn:
		event = l.log.Info()
	case kgo.LogLevelInfo:
		event = l.log.Debug()
	}
	for i := 0; i+1 < len(keyvals); i += 2 {
		event = event.Str(fmt.Sprint(keyvals[i]), fmt.Sprint(keyvals[i+1]))
	}
	event.Msg("kafka client: " + message)
}
