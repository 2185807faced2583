package testenv

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// FakeConfig describes an in-process cluster of franz-go's kfake. The zero value is one broker
// without topics.
type FakeConfig struct {
	// Brokers is the number of nodes, 0 meaning 1. Their ids are 0 to Brokers-1.
	Brokers int
	// Topics maps a topic to its number of partitions.
	Topics map[string]int32
	// Versions is the release to look like; nil means Kafka 4.3. An uncapped kfake would model
	// an unreleased Kafka that refuses a first sequence other than 0 (KAFKA-15591).
	Versions *kversion.Versions
	// Options are passed on to kfake and win over the fields above.
	Options []kfake.Opt
}

// Fake is a running kfake cluster. The embedded Cluster has its controls: intercepting requests
// with ControlKey, moving leaders, compacting.
//
// TestFakeAsDestination lists where it differs from a real broker in what a destination needs.
type Fake struct {
	*kfake.Cluster
	ports *PortBlock
}

// StartFake starts a cluster; the caller closes it.
func StartFake(config FakeConfig) (*Fake, error) {
	brokers := max(config.Brokers, 1)
	ports, err := ReservePorts(brokers)
	if err != nil {
		return nil, fmt.Errorf("start fake cluster: %w", err)
	}
	versions := config.Versions
	if versions == nil {
		versions = kversion.V4_3_0()
	}
	var numbers []int
	for i := range brokers {
		numbers = append(numbers, ports.First+i)
	}
	options := []kfake.Opt{kfake.NumBrokers(brokers), kfake.Ports(numbers...), kfake.MaxVersions(versions), kfake.ClusterID(newClusterID())}
	for topic, partitions := range config.Topics {
		options = append(options, kfake.SeedTopics(partitions, topic))
	}
	cluster, err := kfake.NewCluster(append(options, config.Options...)...)
	if err != nil {
		ports.Close()
		return nil, fmt.Errorf("start fake cluster: %w", err)
	}
	fake := &Fake{Cluster: cluster, ports: ports}
	fake.ControlKey(int16(kmsg.DescribeACLs), fake.noAuthorizer)
	return fake, nil
}

// noAuthorizer answers as a broker without an authorizer does; kfake would list no ACLs, which says that there is one.
func (f *Fake) noAuthorizer(request kmsg.Request) (kmsg.Response, error, bool) {
	f.KeepControl()
	response := request.ResponseKind().(*kmsg.DescribeACLsResponse)
	response.ErrorCode = kerr.SecurityDisabled.Code
	return response, nil, true
}

// Bootstrap lists the "host:port" of every node, node 0 first.
func (f *Fake) Bootstrap() []string { return f.ListenAddrs() }

// Close ends the cluster and its data.
func (f *Fake) Close() error {
	f.Cluster.Close()
	return f.ports.Close()
}

// NewFake starts a cluster for the length of a test.
func NewFake(tb testing.TB, config FakeConfig) *Fake {
	tb.Helper()
	fake, err := StartFake(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := fake.Close(); err != nil {
			tb.Errorf("close fake cluster: %v", err)
		}
	})
	return fake
}
