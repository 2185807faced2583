package replicate

import (
	"testing"

	"kafka-mirror-proxy/testenv"
)

// One broker as the source and three as the destination, shared by the tests of the package. The destination looks for
// producers to forget every second instead of every ten minutes.
var (
	realSource      = testenv.Shared(testenv.KafkaConfig{Brokers: 1})
	realDestination = testenv.Shared(testenv.KafkaConfig{Brokers: 3, JVMHeapMiB: 384, Properties: map[string]string{"producer.id.expiration.check.interval.ms": "1000"}})
)

func TestMain(m *testing.M) { testenv.Main(m, realSource, realDestination) }
