package acceptance

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"kafka-mirror-proxy/testenv"
)

// quickCleaner has the log cleaner look again at once, not after 15 s.
var quickCleaner = map[string]string{"log.cleaner.backoff.ms": "100"}

// All tests share these clusters, one after the other: topics and mirrors have names of their
// own, and each test leaves every broker running and no mirror behind.
var (
	source      = testenv.Shared(testenv.KafkaConfig{Properties: quickCleaner})
	destination = testenv.Shared(testenv.KafkaConfig{Brokers: 3, Properties: quickCleaner})
	oldSource   = testenv.Shared(testenv.KafkaConfig{Version: oldVersion}) // see useSource
)

// oldVersion is the oldest Kafka that can be a source.
const oldVersion = "2.1.1"

func TestMain(m *testing.M) { testenv.Main(m, source, destination, oldSource) }

// long says that the tests are to run at the size that the acceptance asks for.
func long() bool { return os.Getenv("KMP_LONG") == "1" }

// newRand is the source of a test's random choices. The seed is printed, so that a failure can be repeated.
func newRand(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("KMP_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("KMP_SEED: %v", err)
		}
	}
	t.Logf("KMP_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
