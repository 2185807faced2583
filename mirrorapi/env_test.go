package mirrorapi

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

const (
	sourceID      = "sourceClusterAAAAAAAAA"
	destinationID = "destinationClusterAAAA"
)

// env is a handler between two fake clusters, with a store in memory.
type env struct {
	t                   *testing.T
	source, destination *testenv.Fake
	sourceClient        *kgo.Client
	destinationClient   *kgo.Client
	store               *state.Memory
	live                *state.Live
	gate                *fakeGate
	clusters            *fakeClusters
	nowMs               atomic.Int64
	log                 *strings.Builder
	h                   *Handler
}

// fakeGate runs a hook in place of waiting.
type fakeGate struct {
	calls   int
	bounded bool // the last call had a deadline
	hook    func() error
}

func (g *fakeGate) Barrier(ctx context.Context) error {
	g.calls++
	_, g.bounded = ctx.Deadline()
	if g.hook != nil {
		return g.hook()
	}
	return nil
}

type fakeClusters struct {
	source, destination *kgo.Client
	sourceErr, checkErr error
	checked             map[string]string
}

func (c *fakeClusters) Destination() *kgo.Client { return c.destination }

func (c *fakeClusters) Source(context.Context, *state.Mirror) (*kgo.Client, error) {
	return c.source, c.sourceErr
}

func (c *fakeClusters) CheckConfigs(configs map[string]string) error {
	c.checked = configs
	return c.checkErr
}

type option func(*envConfig)

type envConfig struct {
	brokers       int
	secretKey     []byte
	destinationID string
	authorizer    bool
	user          string // of the proxy, at a destination that knows users and ACLs; "" for one without
	sourceTopics  map[string]int32
}

func newEnv(t *testing.T, options ...option) *env {
	t.Helper()
	cfg := envConfig{brokers: 1, destinationID: destinationID}
	for _, o := range options {
		o(&cfg)
	}
	e := &env{
		t:           t,
		source:      testenv.NewFake(t, testenv.FakeConfig{Topics: cfg.sourceTopics, Options: []kfake.Opt{kfake.ClusterID(sourceID)}}),
		destination: newDestination(t, cfg),
		store:       state.NewMemory(), live: state.NewLive(), gate: &fakeGate{}, log: &strings.Builder{},
	}
	e.sourceClient, e.destinationClient = e.client(e.source), e.client(e.destination, login(cfg.user)...)
	e.clusters = &fakeClusters{source: e.sourceClient, destination: e.destinationClient}
	e.nowMs.Store(1_000_000)
	box, err := NewSecretBox(cfg.secretKey)
	if err != nil {
		t.Fatal(err)
	}
	e.h, err = New(Config{
		Store: e.store, Live: e.live, Clusters: e.clusters, Gate: e.gate, Secrets: box,
		Ignored: func(configs map[string]string) []string {
			if _, ok := configs["fetch.min.bytes"]; ok {
				return []string{"fetch.min.bytes"}
			}
			return nil
		},
		TrustClients: cfg.user != "",
		Address:      func(node int32) (string, int32) { return "proxy", 9095 + node },
		Clock:        func() time.Time { return time.UnixMilli(e.nowMs.Load()) },
		Log:          zerolog.New(e.log),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// newDestination starts a destination without an authorizer, as testenv's are, or a bare kfake, which answers questions for
// ACLs as a cluster with one does.
func newDestination(t *testing.T, cfg envConfig) *testenv.Fake {
	t.Helper()
	if cfg.user != "" {
		return newSecured(t)
	}
	if !cfg.authorizer {
		return testenv.NewFake(t, testenv.FakeConfig{Brokers: cfg.brokers, Options: []kfake.Opt{kfake.ClusterID(cfg.destinationID)}})
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(cfg.brokers), kfake.ClusterID(cfg.destinationID))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return &testenv.Fake{Cluster: cluster}
}

func (e *env) client(cluster *testenv.Fake, opts ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(cluster.Bootstrap()...), kgo.MetadataMinAge(10*time.Millisecond))...)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(client.Close)
	return client
}

func sourceTopics(topics map[string]int32) option {
	return func(c *envConfig) { c.sourceTopics = topics }
}
func secretKey(key string) option { return func(c *envConfig) { c.secretKey = []byte(key) } }
func brokers(n int) option        { return func(c *envConfig) { c.brokers = n } }
func withAuthorizer() option      { return func(c *envConfig) { c.authorizer = true } }
func sameCluster() option         { return func(c *envConfig) { c.destinationID = sourceID } }

// raw answers a request given as bytes.
func (e *env) raw(key, version int16, body []byte, node int32) []byte {
	e.t.Helper()
	answer, err := e.h.Handle(e.t.Context(), Request{Key: key, Version: version, Body: body, NodeID: node, Dialect: "seed"})
	if err != nil {
		e.t.Fatalf("key %d: %v", key, err)
	}
	return answer
}

// call sends a mirror request on a broker's listener (-1: bootstrap).
func call[R mirrormsg.Response](e *env, node int32, req mirrormsg.Request) R {
	e.t.Helper()
	key, ok := mirrormsg.Seed.Key(req.API())
	if !ok {
		e.t.Fatalf("%s has no key", req.API())
	}
	resp := req.NewResponse().(R)
	if err := resp.ReadFrom(e.raw(key, 0, req.AppendTo(nil), node)); err != nil {
		e.t.Fatalf("%s: %v", req.API(), err)
	}
	return resp
}

func (e *env) create(name string, configs ...string) *mirrormsg.CreateMirrorResponse {
	e.t.Helper()
	req := &mirrormsg.CreateMirrorRequest{MirrorName: name}
	for i := 0; i < len(configs); i += 2 {
		req.Config = append(req.Config, mirrormsg.MirrorConfig{Name: configs[i], Value: &configs[i+1]})
	}
	return call[*mirrormsg.CreateMirrorResponse](e, bootstrapNode, req)
}

// mirror creates a mirror of the source cluster.
func (e *env) mirror(name string, configs ...string) {
	e.t.Helper()
	resp := e.create(name, append([]string{"bootstrap.servers", strings.Join(e.source.Bootstrap(), ",")}, configs...)...)
	wantStatus(e.t, &resp.Status, 0, "")
}

func (e *env) topics(op mirrormsg.API, mirror string, edit func(*mirrormsg.TopicsRequest), names ...string) *mirrormsg.TopicsResponse {
	e.t.Helper()
	req := &mirrormsg.TopicsRequest{Op: op, MirrorName: mirror}
	req.SetExtended(true)
	for _, name := range names {
		req.Topics = append(req.Topics, mirrormsg.TopicRef{TopicName: name})
	}
	if edit != nil {
		edit(req)
	}
	return call[*mirrormsg.TopicsResponse](e, bootstrapNode, req)
}

func (e *env) add(mirror string, names ...string) *mirrormsg.TopicsResponse {
	e.t.Helper()
	return e.topics(mirrormsg.AddTopicsToMirror, mirror, nil, names...)
}

// mustAdd adds topics and returns them as the store knows them.
func (e *env) mustAdd(mirror string, names ...string) []*state.Topic {
	e.t.Helper()
	resp := e.add(mirror, names...)
	wantStatus(e.t, &resp.Status, 0, "")
	var topics []*state.Topic
	for _, r := range resp.Topics {
		if r.ErrorCode != 0 {
			e.t.Fatalf("add %s: %s %s", r.Name, r.ErrorCode, text(r.ErrorMessage))
		}
		topics = append(topics, e.topic(r.Name))
	}
	return topics
}

func (e *env) topic(name string) *state.Topic {
	e.t.Helper()
	topic, ok := e.store.View().Topic(name)
	if !ok {
		e.t.Fatalf("the store does not know topic %s", name)
	}
	return topic
}

func (e *env) do(commands ...state.Command) {
	e.t.Helper()
	if err := e.store.Do(e.t.Context(), commands...); err != nil {
		e.t.Fatal(err)
	}
}

// move takes all partitions of a topic through statuses.
func (e *env) move(topic *state.Topic, offset int64, statuses ...state.Status) {
	e.t.Helper()
	for partition := range topic.Partitions {
		for _, s := range statuses {
			move := state.MovePartition{
				Partition: state.PartitionID{Topic: topic.ID, Partition: partition}, To: s, LastMirroredOffset: -1,
			}
			if s == state.Stopped {
				move.LastMirroredOffset = offset
			}
			e.do(move)
		}
	}
}

// produce writes n records to a partition of a cluster.
func (e *env) produce(cluster *testenv.Fake, topic string, partition int32, n int) {
	e.t.Helper()
	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.Bootstrap()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		e.t.Fatal(err)
	}
	defer producer.Close()
	for i := range n {
		record := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(strconv.Itoa(i))}
		if err := producer.ProduceSync(e.t.Context(), record).FirstErr(); err != nil {
			e.t.Fatal(err)
		}
	}
}

func wantStatus(t *testing.T, status *mirrormsg.Status, code mirrormsg.ErrorCode, message string) {
	t.Helper()
	if status.ErrorCode != code || text(status.ErrorMessage) != message {
		t.Fatalf("answer is %s %q, want %s %q", status.ErrorCode, text(status.ErrorMessage), code, message)
	}
}

// wantRefusal checks the code and a part of the message.
func wantRefusal(t *testing.T, status *mirrormsg.Status, code mirrormsg.ErrorCode, parts ...string) {
	t.Helper()
	if status.ErrorCode != code {
		t.Fatalf("answer is %s %q, want %s", status.ErrorCode, text(status.ErrorMessage), code)
	}
	for _, part := range parts {
		if !strings.Contains(text(status.ErrorMessage), part) {
			t.Fatalf("message %q does not hold %q", text(status.ErrorMessage), part)
		}
	}
}

// wantTopic checks one topic of an answer.
func wantTopic(t *testing.T, resp *mirrormsg.TopicsResponse, name string, code mirrormsg.ErrorCode, parts ...string) {
	t.Helper()
	for _, r := range resp.Topics {
		if r.Name == name {
			wantRefusal(t, &mirrormsg.Status{ErrorCode: r.ErrorCode, ErrorMessage: r.ErrorMessage}, code, parts...)
			return
		}
	}
	t.Fatalf("the answer does not mention topic %s", name)
}

func hostPort(t *testing.T, addr string) (string, int32) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return host, int32(n)
}

var errDown = errors.New("nobody is there")
