package replicate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

// Each broker of the source gets as many fetchers as is set; a partition stays with one, and the metrics say with which.
func TestFetchersShareThePartitions(t *testing.T) {
	const partitions = 12
	r, source, _ := fakeRig(t)
	r.settings.Fetchers = 3
	r.createTopic("shared", partitions, nil)
	for i := range int32(partitions) {
		if err := source.MoveTopicPartition("shared", i, i%2); err != nil {
			t.Fatal(err)
		}
		r.produce("shared", i, 0, 10, nil)
	}
	var mu sync.Mutex
	together := map[int32]map[string]bool{} // partition: the partitions that were asked for with it
	source.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		source.KeepControl()
		var asked []int32
		for _, topic := range request.(*kmsg.FetchRequest).Topics {
			for _, p := range topic.Partitions {
				asked = append(asked, p.Partition)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for _, p := range asked {
			if together[p] == nil {
				together[p] = map[string]bool{}
			}
			for _, other := range asked {
				together[p][fmt.Sprint(other)] = true
			}
		}
		return nil, nil, false
	})
	r.start()
	id := r.add("shared", partitions)
	r.awaitStatus(id, partitions, state.Mirroring)
	r.awaitCaughtUp("shared", partitions)
	r.compare("shared", partitions)

	names := map[string]int{} // fetcher: partitions
	testenv.Eventually(t, patience, "a lag for every partition", func() error {
		names = labels(t, r.replicator, "fetcherlagmetrics_consumerlag", "clientid")
		total := 0
		for _, n := range names {
			total += n
		}
		if total != partitions {
			return fmt.Errorf("%v", names)
		}
		return nil
	})
	want := []string{"MirrorFetcherThread-0-0-m", "MirrorFetcherThread-0-1-m", "MirrorFetcherThread-1-0-m", "MirrorFetcherThread-1-1-m", "MirrorFetcherThread-2-0-m", "MirrorFetcherThread-2-1-m"}
	if got := slices.Sorted(maps.Keys(names)); !slices.Equal(got, want) {
		t.Errorf("fetchers %v, want %v", got, want)
	}
	if got := slices.Sorted(maps.Keys(labels(t, r.replicator, "fetcherstats_bytespersec", "clientid"))); !slices.Equal(got, want) {
		t.Errorf("fetchers with counters %v, want %v", got, want)
	}
	mu.Lock()
	defer mu.Unlock()
	for p, others := range together {
		if len(others) > partitions/3 {
			t.Errorf("partition %d was fetched together with %v", p, slices.Sorted(maps.Keys(others)))
		}
	}
}

// labels counts the samples of a metric by the value of a label.
func labels(t *testing.T, c prometheus.Collector, metric, label string) map[string]int {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, family := range families {
		if !strings.Contains(family.GetName(), metric) {
			continue
		}
		for _, sample := range family.GetMetric() {
			for _, pair := range sample.GetLabel() {
				if pair.GetName() == label {
					found[pair.GetValue()]++
				}
			}
		}
	}
	return found
}
