package mirrorapi

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

// stopping are the statuses by which a new partition gets to STOPPED.
var stopping = []state.Status{state.Stopping, state.Stopped}

func TestAddCreatesTheTopic(t *testing.T) {
	e := newEnv(t, brokers(3), sourceTopics(map[string]int32{"orders": 3, "other": 1}))
	setTopicConfig(t, e.sourceClient, "orders", map[string]string{
		"cleanup.policy": "compact", "retention.ms": "1000", "segment.bytes": "2000000",
		"max.message.bytes": "2000000", "min.insync.replicas": "2",
	})
	e.mirror("m1")
	resp := e.topics(mirrormsg.AddTopicsToMirror, "m1", func(r *mirrormsg.TopicsRequest) { r.ReplicationFactor = 2 }, "orders")
	wantStatus(t, &resp.Status, 0, "")
	wantTopic(t, resp, "orders", 0)
	if resp.MirrorName != "m1" || len(resp.Topics) != 1 {
		t.Errorf("answer is %+v", resp)
	}

	topic := e.topic("orders")
	src, dst := e.source.TopicInfo("orders"), e.destination.TopicInfo("orders")
	if topic.ID != dst.TopicID || topic.SourceID != src.TopicID || topic.Partitions != 3 ||
		topic.Desired != state.DesiredMirroring || topic.Engine != "produce" || topic.Mirror != "m1" {
		t.Errorf("the store has %+v", topic)
	}
	if e.gate.calls != 1 {
		t.Errorf("the gate was asked %d times", e.gate.calls)
	}
	if dst.NumReplicas != 2 {
		t.Errorf("replication factor is %d", dst.NumReplicas)
	}
	want := map[string]string{
		"cleanup.policy": "compact,delete", "compression.type": "producer", "max.message.bytes": "2065536",
		"message.timestamp.after.max.ms": unlimited, "message.timestamp.before.max.ms": unlimited,
		"message.timestamp.type": "CreateTime", "retention.bytes": "-1", "retention.ms": "-1",
		"segment.bytes": "2000000", "unclean.leader.election.enable": "false",
	}
	if got := overrides(t, e.destinationClient, "orders"); !maps.Equal(got, want) {
		t.Errorf("destination configs are\n%v, want\n%v", got, want)
	}
	handBack := map[string]string{}
	for key, value := range topic.HandBack {
		handBack[key] = "deleted"
		if value != nil {
			handBack[key] = *value
		}
	}
	wantBack := map[string]string{
		"cleanup.policy": "compact", "retention.ms": "1000", "max.message.bytes": "2000000",
		"compression.type": "deleted", "message.timestamp.after.max.ms": "deleted", "message.timestamp.before.max.ms": "deleted",
		"message.timestamp.type": "deleted", "retention.bytes": "deleted", "unclean.leader.election.enable": "deleted",
	}
	if !maps.Equal(handBack, wantBack) {
		t.Errorf("handed back:\n%v, want\n%v", handBack, wantBack)
	}
	if m, _ := e.store.View().Mirror("m1"); m.SourceClusterID != sourceID {
		t.Errorf("source cluster id is %q", m.SourceClusterID)
	}
}

func TestAddByPattern(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"a1": 1, "a2": 1, "b": 1, "__x": 1}))
	e.mirror("m1")
	resp := e.topics(mirrormsg.AddTopicsToMirror, "m1", func(r *mirrormsg.TopicsRequest) { r.Patterns = []string{"a."} })
	wantStatus(t, &resp.Status, 0, "")
	wantTopic(t, resp, "a1", 0)
	wantTopic(t, resp, "a2", 0)
	if len(resp.Topics) != 2 {
		t.Errorf("%d topics were added", len(resp.Topics))
	}
	// The rest, two of which are in the mirror: the call succeeds because one topic does.
	resp = e.add("m1", ".*")
	wantStatus(t, &resp.Status, 0, "")
	wantTopic(t, resp, "a1", mirrormsg.TopicAlreadyInMirror, "topic a1 is already in mirror m1")
	wantTopic(t, resp, "b", 0)
	if len(resp.Topics) != 3 {
		t.Errorf("__x was chosen: %+v", resp.Topics)
	}
	wantRefusal(t, &e.add("m1", "a(?!1)").Status, mirrormsg.InvalidRequest, "negative lookahead")
	wantRefusal(t, &e.add("m1", "zzz.*").Status, mirrormsg.UnknownTopicOrPartition, "No topics matching pattern 'zzz.*' found")
}

func TestAddRefusals(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 2, "__internal": 1, "wide": 4}))
	wantRefusal(t, &e.add("m1", "orders").Status, mirrormsg.UnknownMirror, `mirror "m1" does not exist`)
	e.mirror("m1")
	wantRefusal(t, &e.add("m1", "__internal").Status, mirrormsg.InvalidTopicException, "__internal is internal")
	byPattern := e.topics(mirrormsg.AddTopicsToMirror, "m1", func(r *mirrormsg.TopicsRequest) { r.Patterns = []string{"__internal"} })
	wantRefusal(t, &byPattern.Status, mirrormsg.InvalidTopicException, "__internal is internal")
	wantRefusal(t, &e.add("m1", "missing").Status, mirrormsg.UnknownTopicOrPartition,
		"topic missing does not exist on the source cluster of mirror m1")

	// The reference's client reads no topic codes: all failed means that the call failed.
	resp := e.add("m1", "missing", "__internal")
	wantRefusal(t, &resp.Status, mirrormsg.UnknownTopicOrPartition, "topic missing does not exist", "__internal is internal")
	if err := e.destination.CreateTopic("wide", 3, nil); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, &e.add("m1", "wide").Status, mirrormsg.InvalidPartitions, "topic wide has 3 partitions here and 4 on the source")
	if topics := e.store.View().TopicsOf("m1"); len(topics) != 0 {
		t.Errorf("refused topics are in the mirror: %v", topics[0])
	}

	e.mustAdd("m1", "orders")
	resp = e.add("m1", "orders", "missing")
	wantRefusal(t, &resp.Status, mirrormsg.TopicAlreadyInMirror, "orders")
	wantTopic(t, resp, "orders", mirrormsg.TopicAlreadyInMirror, "topic orders is already in mirror m1")
	wantTopic(t, resp, "missing", mirrormsg.UnknownTopicOrPartition)
}

func TestAddWithoutTheMarkerTellsNoReasonsPerTopic(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	resp := e.topics(mirrormsg.AddTopicsToMirror, "m1", func(r *mirrormsg.TopicsRequest) { r.SetExtended(false) }, "orders", "missing")
	wantStatus(t, &resp.Status, 0, "")
	for _, r := range resp.Topics {
		if r.ErrorMessage != nil {
			t.Errorf("topic %s has our field", r.Name)
		}
	}
}

func TestAddOnTheSourceItself(t *testing.T) {
	e := newEnv(t, sameCluster(), sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	wantRefusal(t, &e.add("m1", "orders").Status, mirrormsg.InvalidRequest, "mirror m1 has its own destination as its source", sourceID)
}

func TestAddOnAnotherSourceThanBefore(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	e.do(state.SetSourceCluster{Mirror: "m1", ClusterID: "another"})
	wantStatus(t, &e.add("m1", "orders").Status, mirrormsg.InvalidRequest, "Source cluster ID changed for mirror m1: expected another, got "+
		sourceID+". This may indicate a misconfiguration or that the source cluster has been replaced.")
}

func TestAddWhileTheSourceIsDown(t *testing.T) {
	e := newEnv(t)
	e.mirror("m1")
	e.clusters.sourceErr = errDown
	wantRefusal(t, &e.add("m1", "orders").Status, networkException, "connect to the source cluster of mirror m1", errDown.Error())
}

func TestAddRefusesATopicThatHoldsRecords(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 4}))
	e.mirror("m1")
	if err := e.destination.CreateTopic("orders", 4, nil); err != nil {
		t.Fatal(err)
	}
	e.produce(e.destination, "orders", 3, 12)
	resp := e.add("m1", "orders")
	wantRefusal(t, &resp.Status, mirrormsg.InvalidRequest,
		"topic orders already holds 12 records (partition 3: offsets 0 to 11); a mirror begins with an empty topic")
	if _, ok := e.store.View().Topic("orders"); ok {
		t.Error("the topic was not rolled back")
	}
	if got := overrides(t, e.destinationClient, "orders"); len(got) != 0 {
		t.Errorf("the refused topic's configs were changed: %v", got)
	}

	if err := e.destination.DeleteRecords("orders", 3, 12); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, &e.add("m1", "orders").Status, mirrormsg.InvalidRequest,
		"topic orders once held records (partition 3: the next offset is 12)")
}

// A produce that was under way when the topic became read-only is only seen behind the barrier.
func TestAddLooksBehindTheBarrier(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	e.gate.hook = func() error {
		topic, ok := e.store.View().Topic("orders")
		if !ok || topic.Desired != state.DesiredAdding || !e.store.View().ReadOnly(topic) {
			t.Error("the topic is not read-only when the barrier is waited for")
		}
		e.produce(e.destination, "orders", 0, 1)
		return nil
	}
	wantRefusal(t, &e.add("m1", "orders").Status, mirrormsg.InvalidRequest, "already holds 1 records (partition 0: offsets 0 to 0)")
	if _, ok := e.store.View().Topic("orders"); ok {
		t.Error("the topic was not rolled back")
	}
}

// A leader that has just lost a partition knows nothing of the records that its successor has taken, and a client that was
// not told asks it.
func TestAddLooksAtTheLeaderOfNow(t *testing.T) {
	e := newEnv(t, brokers(2), sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	if err := e.destination.CreateTopic("orders", 1, nil); err != nil {
		t.Fatal(err)
	}
	var former int32
	e.destination.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		e.destination.KeepControl()
		r := req.(*kmsg.ListOffsetsRequest)
		if e.destination.CurrentNode() != former || r.ReplicaID != -2 { // what debugging clients may ask of any replica
			return nil, nil, false
		}
		resp := r.ResponseKind().(*kmsg.ListOffsetsResponse)
		p := kmsg.NewListOffsetsResponseTopicPartition()
		p.Offset = 0
		resp.Topics = []kmsg.ListOffsetsResponseTopic{{Topic: "orders", Partitions: []kmsg.ListOffsetsResponseTopicPartition{p}}}
		return resp, nil, true
	})
	former = e.destination.LeaderFor("orders", 0)
	slow, err := kgo.NewClient(kgo.SeedBrokers(e.destination.Bootstrap()...)) // keeps what it knows for as long as clients do
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	e.clusters.destination = slow
	e.destination.ControlKey(int16(kmsg.DescribeProducers), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.DescribeProducersResponse) // the last that the client hears from the former leader
		e.destination.SleepControl(func() {
			if err := e.destination.MoveTopicPartition("orders", 0, 1-former); err != nil {
				t.Error(err)
			}
			e.produce(e.destination, "orders", 0, 1)
		})
		return resp, nil, true
	})
	wantRefusal(t, &e.add("m1", "orders").Status, mirrormsg.InvalidRequest, "already holds 1 records (partition 0: offsets 0 to 0)")
}

// A record that only the leader has is not below the high watermark, and may get there.
func TestAddSeesWhatIsNotReplicated(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	moved := false
	e.destination.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		e.destination.KeepControl()
		asked := req.(*kmsg.OffsetForLeaderEpochRequest).Topics[0].Partitions[0]
		resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
		if p.LeaderEpoch, p.EndOffset = asked.LeaderEpoch, 7; asked.CurrentLeaderEpoch != asked.LeaderEpoch || asked.LeaderEpoch < 0 {
			t.Errorf("asked %+v", asked)
		}
		if !moved { // the leader of the first answer is not the leader any more
			moved, p.ErrorCode, p.EndOffset = true, kerr.FencedLeaderEpoch.Code, -1
		}
		resp.Topics = []kmsg.OffsetForLeaderEpochResponseTopic{{Topic: "orders", Partitions: []kmsg.OffsetForLeaderEpochResponseTopicPartition{p}}}
		return resp, nil, true
	})
	wantRefusal(t, &e.add("m1", "orders").Status, mirrormsg.InvalidRequest, "already holds 7 records (partition 0: offsets 0 to 6)")
}

// What was looked at must be what becomes read-only.
func TestAddRefusesATopicThatIsRecreatedMeanwhile(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	e.gate.hook = func() error {
		if err := e.destination.DeleteTopic("orders"); err != nil {
			t.Error(err)
		}
		return e.destination.CreateTopic("orders", 1, nil)
	}
	wantRefusal(t, &e.add("m1", "orders").Status, mirrormsg.InconsistentTopicID, "deleted and created again meanwhile")
}

func TestAddIsRolledBackWhenTheBarrierFails(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	ctx, cancel := context.WithCancel(t.Context())
	e.gate.hook = func() error {
		cancel()
		return errors.New("produces are stuck")
	}
	req := &mirrormsg.TopicsRequest{Op: mirrormsg.AddTopicsToMirror, MirrorName: "m1", Topics: []mirrormsg.TopicRef{{TopicName: "orders"}}}
	resp := e.h.addTopics(ctx, req).(*mirrormsg.TopicsResponse)
	wantRefusal(t, &resp.Status, networkException, "wait for the produces under way: produces are stuck")
	if _, ok := e.store.View().Topic("orders"); ok {
		t.Error("the topic was not rolled back")
	}
}

func TestAddWaitsForTheBarrierForABoundedTime(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	e.gate.hook = func() error {
		if !e.gate.bounded {
			t.Error("the barrier may take for ever")
		}
		return context.DeadlineExceeded
	}
	wantRefusal(t, &e.add("m1", "orders").Status, mirrormsg.RequestTimedOut, "topic orders: wait for the produces under way: "+
		"a produce that was let through before has not been answered by its broker for 20s; nothing was added, try again")
	if _, ok := e.store.View().Topic("orders"); ok {
		t.Error("the topic was not rolled back")
	}
}

func TestAddRefusesOpenTransactions(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	if err := e.destination.CreateTopic("orders", 1, nil); err != nil {
		t.Fatal(err)
	}
	// A transaction that has announced the partition and written nothing: the log is empty, its marker would not be.
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = kmsg.StringPtr("payments"), 60000
	init, err := req.RequestWith(t.Context(), e.destinationClient)
	if err != nil || init.ErrorCode != 0 {
		t.Fatal(err, init.ErrorCode)
	}
	announce := kmsg.NewPtrAddPartitionsToTxnRequest()
	announce.TransactionalID, announce.ProducerID, announce.ProducerEpoch = "payments", init.ProducerID, init.ProducerEpoch
	announce.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "orders", Partitions: []int32{0}}}
	if _, err := announce.RequestWith(t.Context(), e.destinationClient); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, &e.add("m1", "orders").Status, mirrormsg.InvalidRequest, `topic orders takes part in transaction "payments"`)
	if _, ok := e.store.View().Topic("orders"); ok {
		t.Error("the topic was not rolled back")
	}
}

// A transaction that was being aborted ends, and its marker is written, before the n-th look at the topic. Whenever that
// is, the add must notice the transaction or its marker.
func TestAddRefusesTransactionsThatEndMeanwhile(t *testing.T) {
	for n := 0; ; n++ {
		e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
		e.mirror("m1")
		looks := 0
		ended := func() bool {
			looks++
			return looks > n
		}
		e.destination.ControlKey(int16(kmsg.ListTransactions), func(req kmsg.Request) (kmsg.Response, error, bool) {
			e.destination.KeepControl()
			resp := req.ResponseKind().(*kmsg.ListTransactionsResponse)
			if !ended() {
				resp.TransactionStates = []kmsg.ListTransactionsResponseTransactionState{{TransactionalID: "payments", TransactionState: "PrepareAbort"}}
			}
			return resp, nil, true
		})
		e.destination.ControlKey(int16(kmsg.DescribeTransactions), func(req kmsg.Request) (kmsg.Response, error, bool) {
			e.destination.KeepControl()
			resp := req.ResponseKind().(*kmsg.DescribeTransactionsResponse)
			transaction := kmsg.DescribeTransactionsResponseTransactionState{TransactionalID: "payments", State: "CompleteAbort"}
			if !ended() {
				transaction.State = "PrepareAbort"
				transaction.Topics = []kmsg.DescribeTransactionsResponseTransactionStateTopic{{Topic: "orders", Partitions: []int32{0}}}
			}
			resp.TransactionStates = append(resp.TransactionStates, transaction)
			return resp, nil, true
		})
		e.destination.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
			e.destination.KeepControl()
			resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Offset = 0
			if ended() && req.(*kmsg.ListOffsetsRequest).Topics[0].Partitions[0].Timestamp == latestOffset {
				p.Offset = 1
			}
			resp.Topics = []kmsg.ListOffsetsResponseTopic{{Topic: "orders", Partitions: []kmsg.ListOffsetsResponseTopicPartition{p}}}
			return resp, nil, true
		})
		if resp := e.add("m1", "orders"); resp.ErrorCode != mirrormsg.InvalidRequest {
			t.Errorf("ended before look %d: the add answers %s %q", n, resp.ErrorCode, text(resp.ErrorMessage))
		}
		if looks <= n { // it ended after the last look
			return
		}
	}
}

func TestAddRefusesWritingProducers(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	e.destination.ControlKey(int16(kmsg.DescribeProducers), func(req kmsg.Request) (kmsg.Response, error, bool) {
		e.destination.KeepControl()
		resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
		producer := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		producer.ProducerID, producer.CurrentTxnStartOffset = 77, 0
		resp.Topics = []kmsg.DescribeProducersResponseTopic{{Topic: "orders", Partitions: []kmsg.DescribeProducersResponseTopicPartition{
			{Partition: 0, ActiveProducers: []kmsg.DescribeProducersResponseTopicPartitionActiveProducer{producer}},
		}}}
		return resp, nil, true
	})
	wantRefusal(t, &e.add("m1", "orders").Status, mirrormsg.InvalidRequest, "topic orders has an open transaction of producer 77 in partition 0")
}

// A topic that was created a moment ago, or a leader that was restarted, answers so for a while.
func TestAddAsksForProducersUntilTheLeadersAnswer(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	refusals := []*kerr.Error{kerr.UnknownTopicOrPartition, kerr.NotLeaderForPartition}
	e.destination.ControlKey(int16(kmsg.DescribeProducers), func(req kmsg.Request) (kmsg.Response, error, bool) {
		e.destination.KeepControl()
		if len(refusals) == 0 {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
		resp.Topics = []kmsg.DescribeProducersResponseTopic{{Topic: "orders", Partitions: []kmsg.DescribeProducersResponseTopicPartition{
			{Partition: 0, ErrorCode: refusals[0].Code},
		}}}
		refusals = refusals[1:]
		return resp, nil, true
	})
	if resp := e.add("m1", "orders"); resp.ErrorCode != 0 || resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("the add answers %+v", resp)
	}
	if len(refusals) > 0 {
		t.Errorf("%d of the leader's refusals were not met", len(refusals))
	}
}

func TestAddDoesWithoutConfigsThatTheDestinationRefuses(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	setTopicConfig(t, e.sourceClient, "orders", map[string]string{"segment.bytes": "5000000", "segment.ms": "7000", "delete.retention.ms": "9"})
	e.mirror("m1")
	refuse := map[string]string{ // by key: what the broker says
		"message.timestamp.after.max.ms": "Unknown topic config name: message.timestamp.after.max.ms",
		"segment.ms":                     "these configs do not go together",
	}
	e.destination.ControlKey(int16(kmsg.CreateTopics), func(req kmsg.Request) (kmsg.Response, error, bool) {
		create := req.(*kmsg.CreateTopicsRequest)
		for _, c := range create.Topics[0].Configs {
			message, refused := refuse[c.Name]
			if !refused {
				continue
			}
			e.destination.KeepControl()
			resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
			topic := kmsg.NewCreateTopicsResponseTopic()
			topic.Topic, topic.ErrorCode, topic.ErrorMessage = create.Topics[0].Topic, kerr.InvalidConfig.Code, &message
			resp.Topics = append(resp.Topics, topic)
			return resp, nil, true
		}
		return nil, nil, false
	})
	e.mustAdd("m1", "orders")
	got := overrides(t, e.destinationClient, "orders")
	if got["segment.ms"] != "" || got["message.timestamp.after.max.ms"] != "" || got["segment.bytes"] != "5000000" ||
		got["delete.retention.ms"] != "9" || got["retention.ms"] != "-1" {
		t.Errorf("destination configs are %v", got)
	}
	if n := strings.Count(e.log.String(), "does not accept some topic configs"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, e.log)
	}

	// What replication cannot do without is not left out.
	refuse["compression.type"] = "Invalid value producer for configuration compression.type"
	if err := e.source.CreateTopic("second", 1, nil); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, &e.add("m1", "second").Status, mirrormsg.InvalidConfig, "create topic second on the destination", "compression.type")
}

func TestAddAltersATopicThatExists(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	setTopicConfig(t, e.sourceClient, "orders", map[string]string{"segment.bytes": "5000000"})
	e.mirror("m1")
	if err := e.destination.CreateTopic("orders", 1, nil); err != nil {
		t.Fatal(err)
	}
	accept := fakeTopicConfigs(e, map[string]string{
		"retention.ms": "5", "min.insync.replicas": "1", "segment.ms": "100", "retention.bytes": "-1",
	})
	accept.onAlter = func() {
		if topic, ok := e.store.View().Topic("orders"); !ok || topic.Desired != state.DesiredAdding {
			t.Error("the configs are altered before the topic is read-only, or after the end")
		}
	}
	accept.shownAfter = 2        // the leader is late
	e.gate.hook = func() error { // a client's change that was let through before the topic became read-only
		accept.overrides["retention.ms"], accept.overrides["retention.bytes"] = "6", "5"
		return nil
	}
	e.mustAdd("m1", "orders")
	want := []string{
		"SET cleanup.policy delete", "SET compression.type producer", "SET max.message.bytes 1114124",
		"SET message.timestamp.after.max.ms " + unlimited, "SET message.timestamp.before.max.ms " + unlimited,
		"SET message.timestamp.type CreateTime", "SET retention.bytes -1", "SET retention.ms -1", "SET segment.bytes 5000000",
		"SET unclean.leader.election.enable false", "DELETE segment.ms ",
	}
	if !slices.Equal(accept.changes, want) {
		t.Errorf("changes:\n%s\nwant:\n%s", strings.Join(accept.changes, "\n"), strings.Join(want, "\n"))
	}
	if accept.shownAfter != 0 {
		t.Error("the add did not wait until the leader had the configs")
	}
}

func TestAddAgainAfterRemove(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	topic := e.mustAdd("m1", "orders")[0]
	e.topics(mirrormsg.RemoveTopicsFromMirror, "m1", nil, "orders")
	e.move(topic, 5, stopping...)
	e.produce(e.destination, "orders", 0, 5)
	alterSucceeds(e)

	again := e.mustAdd("m1", "orders")[0]
	if !again.WasStopped || again.Desired != state.DesiredMirroring || again.ID != topic.ID {
		t.Errorf("the store has %+v", again)
	}
}

func TestAddAgainFromARecreatedSourceTopic(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	topic := e.mustAdd("m1", "orders")[0]
	e.topics(mirrormsg.RemoveTopicsFromMirror, "m1", nil, "orders")
	e.move(topic, 0, stopping...)
	if err := e.source.DeleteTopic("orders"); err != nil {
		t.Fatal(err)
	}
	if err := e.source.CreateTopic("orders", 1, nil); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, &e.add("m1", "orders").Status, mirrormsg.InconsistentTopicID, topic.SourceID.String(), "it was recreated")
	// Following the advice: with the topic deleted here the new one of the source can be mirrored.
	if err := e.destination.DeleteTopic("orders"); err != nil {
		t.Fatal(err)
	}
	if again := e.mustAdd("m1", "orders")[0]; again.ID == topic.ID || again.SourceID == topic.SourceID || again.WasStopped {
		t.Errorf("the store has %+v", again)
	}
}

func TestAddToATopicRecreatedOnTheDestination(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	old := e.mustAdd("m1", "orders")[0]
	e.topics(mirrormsg.RemoveTopicsFromMirror, "m1", nil, "orders")
	e.move(old, 5, stopping...)
	if err := e.destination.DeleteTopic("orders"); err != nil {
		t.Fatal(err)
	}
	topic := e.mustAdd("m1", "orders")[0]
	if topic.ID == old.ID || topic.WasStopped {
		t.Errorf("the store has %+v", topic)
	}
	if _, ok := e.store.View().TopicByID(old.ID); ok {
		t.Error("the store still knows the deleted topic")
	}
}

func TestNamesKey(t *testing.T) {
	for _, c := range []struct {
		message, key string
		want         bool
	}{
		{"Unknown topic config name: retention.ms", "retention.ms", true},
		{"Invalid value 5 for configuration delete.retention.ms: bad", "retention.ms", false},
		{"delete.retention.ms and retention.ms", "retention.ms", true},
		{"retention.ms.", "retention.ms", true},
		{"retention.ms. It is bad", "retention.ms", true},
		{"retention.msx", "retention.ms", false},
		{"", "retention.ms", false},
	} {
		if got := namesKey(c.message, c.key); got != c.want {
			t.Errorf("%q names %s: %v", c.message, c.key, got)
		}
	}
}

func setTopicConfig(t *testing.T, client *kgo.Client, topic string, configs map[string]string) {
	t.Helper()
	if err := alterTopicOnce(t.Context(), client, topic, configs, nil, false); err != nil {
		t.Fatal(err)
	}
}

// overrides are a topic's own configs.
func overrides(t *testing.T, client *kgo.Client, topic string) map[string]string {
	t.Helper()
	configs, err := readTopicConfigs(t.Context(), client, []string{topic})
	if err != nil || configs[topic].err != nil {
		t.Fatal(err, configs[topic].err)
	}
	return configs[topic].overrides
}

// topicConfigsFake stands in for the destination's topic configs, of which kfake knows fewer than Kafka. All topics share
// its overrides.
type topicConfigsFake struct {
	overrides  map[string]string
	changes    []string // in order: operation, key, value
	onAlter    func()
	shownAfter int // how often the old configs are still described after an alteration
	old        map[string]string
}

func fakeTopicConfigs(e *env, overrides map[string]string) *topicConfigsFake {
	f := &topicConfigsFake{overrides: overrides, onAlter: func() {}}
	e.destination.ControlKey(int16(kmsg.IncrementalAlterConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		e.destination.KeepControl()
		f.onAlter()
		f.old = maps.Clone(f.overrides)
		resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
		for _, r := range req.(*kmsg.IncrementalAlterConfigsRequest).Resources {
			for _, c := range r.Configs {
				f.changes = append(f.changes, c.Op.String()+" "+c.Name+" "+text(c.Value))
				if c.Op == kmsg.IncrementalAlterConfigOpSet {
					f.overrides[c.Name] = *c.Value
				} else {
					delete(f.overrides, c.Name)
				}
			}
			resp.Resources = append(resp.Resources, kmsg.IncrementalAlterConfigsResponseResource{ResourceType: r.ResourceType, ResourceName: r.ResourceName})
		}
		return resp, nil, true
	})
	e.destination.ControlKey(int16(kmsg.DescribeConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		e.destination.KeepControl()
		show := f.overrides
		if len(f.changes) > 0 && f.shownAfter > 0 {
			f.shownAfter--
			show = f.old
		}
		resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
		for _, r := range req.(*kmsg.DescribeConfigsRequest).Resources {
			row := kmsg.DescribeConfigsResponseResource{ResourceType: r.ResourceType, ResourceName: r.ResourceName}
			for key, value := range show {
				row.Configs = append(row.Configs, kmsg.DescribeConfigsResponseResourceConfig{
					Name: key, Value: &value, Source: kmsg.ConfigSourceDynamicTopicConfig,
				})
			}
			resp.Resources = append(resp.Resources, row)
		}
		return resp, nil, true
	})
	return f
}

// alterSucceeds makes the destination accept every alteration.
func alterSucceeds(e *env) { fakeTopicConfigs(e, map[string]string{}) }
