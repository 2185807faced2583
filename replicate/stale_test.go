package replicate

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

func TestFreshness(t *testing.T) {
	var f freshness
	if got := f.at(0); got != 0 {
		t.Errorf("before the first answer: %d", got)
	}
	f.look(100, 10, 10) // all is written
	if got := f.at(10); got != 100 {
		t.Errorf("caught up: %d, want 100", got)
	}
	f.look(200, 50, 20) // 30 records are on their way
	if got := f.at(49); got != 100 {
		t.Errorf("not written yet: %d, want 100", got)
	}
	f.look(300, 80, 49) // the mark stays
	if got := f.at(50); got != 200 {
		t.Errorf("written: %d, want 200", got)
	}
	f.look(400, 90, 60)
	f.look(500, 120, 95) // the mark is passed, another is set
	if got := f.at(119); got != 400 {
		t.Errorf("always behind: %d, want 400", got)
	}
	if got := f.at(120); got != 500 {
		t.Errorf("always behind: %d, want 500", got)
	}
}

func TestNoteEvery(t *testing.T) {
	for c, want := range map[cleaning]time.Duration{
		{deleteRetention: time.Hour}:                  0,
		{compacted: true, deleteRetention: 0}:         time.Second,
		{compacted: true, deleteRetention: time.Hour}: 450 * time.Second,
		{compacted: true, deleteRetention: 1 << 62}:   time.Hour,
	} {
		if got := c.noteEvery(); got != want {
			t.Errorf("%+v: %v, want %v", c, got, want)
		}
	}
}

// compactedMirror is a rig that mirrors 10 records of a source topic with these configs.
func compactedMirror(t *testing.T, topic, policy, deleteRetentionMs string) (*rig, state.TopicID) {
	t.Helper()
	r, _, _ := fakeRig(t)
	r.createTopic(topic, 1, map[string]*string{"cleanup.policy": &policy, "delete.retention.ms": &deleteRetentionMs})
	r.produce(topic, 0, 0, 10, []byte("v"))
	r.start()
	id := r.add(topic, 1)
	r.awaitStatus(id, 1, state.Mirroring)
	r.awaitCaughtUp(topic, 1)
	return r, id
}

// A partition of a compacted topic that was paused for longer than delete.retention.ms, and is behind, is not simply gone on
// with: tombstones may be gone. One that is not behind, was away for less, or whose topic is not compacted, is.
func TestPausedForLongerThanDeletesAreKept(t *testing.T) {
	for _, test := range []struct {
		name, policy string
		away         time.Duration
		behind, want bool
	}{
		{"too long", "compact", 2 * time.Hour, true, true},
		{"too long, with delete", "compact,delete", 2 * time.Hour, true, true},
		{"not behind", "compact", 2 * time.Hour, false, false},
		{"not so long", "compact", 50 * time.Minute, true, false},
		{"not compacted", "delete", 2 * time.Hour, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, id := compactedMirror(t, "tombs", test.policy, "3600000")
			r.do(state.PauseTopic{Mirror: "m", Name: "tombs"})
			r.awaitStatus(id, 1, state.Paused)
			if test.behind {
				r.produce("tombs", 0, 10, 5, nil)
			}
			r.ahead.Add(int64(test.away))
			r.do(state.ResumeTopic{Mirror: "m", Name: "tombs"})
			if !test.want {
				r.awaitStatus(id, 1, state.Mirroring)
				r.awaitCaughtUp("tombs", 1)
				r.compare("tombs", 1)
				return
			}
			r.awaitStatus(id, 1, state.Failed)
			wantError(t, r.partition(id, 0), "tombs-0", "may have missed deletes", "delete.retention.ms (3600000)", "offset 10", "mirror.gap.policy")
			r.setGapPolicy("skip")
			r.awaitStatus(id, 1, state.Mirroring)
			r.awaitCaughtUp("tombs", 1)
			r.compare("tombs", 1)
			progress := r.store.View().Progress(state.PartitionID{Topic: id})
			if progress.Skipped.Note == "" || progress.Skipped.Records != 0 {
				t.Errorf("%+v", progress.Skipped)
			}
			// What was let pass is not found again.
			r.setGapPolicy("fail")
			r.produce("tombs", 0, 15, 5, nil)
			r.awaitCaughtUp("tombs", 1)
			r.awaitStatus(id, 1, state.Mirroring)
		})
	}
}

// A copy that has nothing to do for longer than delete.retention.ms is not behind: after its owner died without a word, the
// next one goes on.
func TestIdleCopyIsFresh(t *testing.T) {
	r, id := compactedMirror(t, "idle", "compact", "8000")
	r.ahead.Add(int64(time.Hour))
	testenv.Eventually(t, patience, "the time to be noted", func() error {
		if at := r.store.View().Progress(state.PartitionID{Topic: id}).CopiedAtMs; at < time.Now().Add(time.Hour-time.Minute).UnixMilli() {
			return fmt.Errorf("noted is %v", time.UnixMilli(at))
		}
		return nil
	})
	r.dieUncleanly()
	r.produce("idle", 0, 10, 5, nil)
	r.start()
	r.awaitStatus(id, 1, state.Mirroring)
	r.awaitCaughtUp("idle", 1)
}

// Whether deletes were missed is not guessed while the source does not tell how it cleans.
func TestStaleWhereTheConfigsCannotBeRead(t *testing.T) {
	r, source, _, id := mirroring(t, "unread", 1, 10)
	r.do(state.PauseTopic{Mirror: "m", Name: "unread"})
	r.awaitStatus(id, 1, state.Paused)
	r.produce("unread", 0, 10, 5, nil)
	hideConfigs(source)
	r.ahead.Add(int64(10 * time.Minute))
	r.do(state.ResumeTopic{Mirror: "m", Name: "unread"})
	r.awaitStatus(id, 1, state.Failed)
	wantError(t, r.partition(id, 0), "read the configs of the source topic unread", "TOPIC_AUTHORIZATION_FAILED")
}

// hideConfigs makes a cluster refuse to describe configs.
func hideConfigs(cluster *testenv.Fake) {
	cluster.ControlKey(int16(kmsg.DescribeConfigs), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		answer := request.ResponseKind().(*kmsg.DescribeConfigsResponse)
		row := kmsg.NewDescribeConfigsResponseResource()
		row.ErrorCode = 29 // TOPIC_AUTHORIZATION_FAILED
		answer.Resources = append(answer.Resources, row)
		return answer, nil, true
	})
}

// TestTopicThatMayBeCompacted: where it is not known whether the cleaner goes over a topic, the key of filler is looked for
// in every codec.
func TestTopicThatMayBeCompacted(t *testing.T) {
	r, source, _ := fakeRig(t)
	hideConfigs(source)
	r.createTopic("may-be", 1, nil)
	lz4 := client(t, r.clusters.source, kgo.ProducerBatchCompression(kgo.Lz4Compression()))
	if err := lz4.ProduceSync(t.Context(), &kgo.Record{Topic: "may-be", Key: []byte(batch.FillerKey), Value: make([]byte, 1000)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	r.start()
	id := r.add("may-be", 1)
	r.awaitStatus(id, 1, state.Failed)
	wantError(t, r.partition(id, 0), "may-be-0", "offset 0", "reserved key")
}
