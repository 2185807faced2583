package replicate

import (
	"testing"

	"kafka-mirror-proxy/testenv"
)

// One broker as the source and three as the destination, shared by the tests of the package.
var (
	realSource      = testenv.Shared(testenv.KafkaConfig{Brokers: 1})
	realDestination = testenv.Shared(testenv.KafkaConfig{Brokers: 3, JVMHeapMiB: 384})
)

func TestMain(m *testing.M) { testenv.Main(m, realSource, realDestination) }
