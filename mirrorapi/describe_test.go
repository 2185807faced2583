package mirrorapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

func TestListMirrors(t *testing.T) {
	e := newEnv(t)
	list := func() *mirrormsg.ListMirrorsResponse {
		return call[*mirrormsg.ListMirrorsResponse](e, 0, &mirrormsg.ListMirrorsRequest{})
	}
	if resp := list(); resp.ErrorCode != 0 || len(resp.Mirrors) != 0 {
		t.Errorf("answer is %+v", resp)
	}
	fill(e)
	e.do(state.SetSourceCluster{Mirror: "m", ClusterID: "abc"})
	bootstrap := strings.Join(e.source.Bootstrap(), ",")
	want := []mirrormsg.ListedMirror{
		{MirrorName: "m", SourceBootstrap: bootstrap, SourceClusterID: "abc", TopicCount: 2}, // removed does not count
		{MirrorName: "other", SourceBootstrap: bootstrap, TopicCount: 2},
	}
	if resp := list(); !slices.Equal(resp.Mirrors, want) {
		t.Errorf("mirrors are %+v", resp.Mirrors)
	}
}

func (e *env) describeMirrors(node int32, extended bool, names ...string) *mirrormsg.DescribeMirrorsResponse {
	e.t.Helper()
	req := &mirrormsg.DescribeMirrorsRequest{MirrorNames: names}
	req.SetExtended(extended)
	return call[*mirrormsg.DescribeMirrorsResponse](e, node, req)
}

func rows(resp *mirrormsg.DescribeMirrorsResponse) []string {
	var lines []string
	for _, m := range resp.Mirrors {
		for _, topic := range m.Topics {
			for _, p := range topic.Partitions {
				lines = append(lines, fmt.Sprintf("%s %s-%d %d %d %d %s", m.MirrorName, topic.TopicName, p.PartitionIndex,
					p.SourceOffset, p.DestinationOffset, p.Lag, p.State))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func TestDescribeMirrorsPerBroker(t *testing.T) {
	e := newEnv(t, brokers(3), sourceTopics(map[string]int32{"orders": 6, "gone": 1}))
	e.mirror("m1")
	topics := e.mustAdd("m1", "orders", "gone")
	for partition := range int32(6) {
		if err := e.destination.MoveTopicPartition("orders", partition, partition%3); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.destination.DeleteTopic("gone"); err != nil { // without a leader: reported by the lowest broker
		t.Fatal(err)
	}
	e.move(topics[0], 0, state.Preparing, state.Mirroring)

	var merged []string
	for node := range int32(3) {
		got := rows(e.describeMirrors(node, false))
		for _, row := range got {
			if strings.Contains(row, "gone") != (strings.Contains(row, "gone-0") && node == 0) {
				t.Errorf("broker %d reports %s", node, row)
			}
		}
		if want := map[int32]int{0: 3, 1: 2, 2: 2}[node]; len(got) != want {
			t.Errorf("broker %d reports %v", node, got)
		}
		merged = append(merged, got...)
	}
	slices.Sort(merged)
	if all := rows(e.describeMirrors(bootstrapNode, false)); !slices.Equal(merged, all) || len(all) != 7 {
		t.Errorf("merged:\n%s\nbootstrap:\n%s", strings.Join(merged, "\n"), strings.Join(all, "\n"))
	}
}

func TestDescribeMirrorsFigures(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	topic := e.mustAdd("m1", "orders")[0]
	id := state.PartitionID{Topic: topic.ID}
	live := e.live.Partition(id)
	live.SourceOffset.Store(100)
	live.DestinationOffset.Store(90)
	live.LaggingSinceMs.Store(e.nowMs.Load() - 1500)

	check := func(want string) {
		t.Helper()
		if got := rows(e.describeMirrors(bootstrapNode, false)); !slices.Equal(got, []string{want}) {
			t.Errorf("rows are %v, want %s", got, want)
		}
	}
	check("m1 orders-0 -1 -1 -1 UNKNOWN")
	e.move(topic, 0, state.Preparing)
	check("m1 orders-0 -1 -1 -1 PREPARING")
	e.move(topic, 0, state.Mirroring)
	check("m1 orders-0 100 90 10 MIRRORING")
	if ext := e.describeMirrors(bootstrapNode, true).Mirrors[0].Topics[0].Partitions[0].Ext; ext.LagMs != 1500 ||
		ext.Engine != "produce" || ext.OffsetGuard != "" || ext.StateSinceMs <= 0 || ext.ErrorMessage != "" {
		t.Errorf("our fields are %+v", ext)
	}
	for guard, untilMs := range map[string]int64{"sequence": e.nowMs.Load() + 1, "detection": e.nowMs.Load()} {
		live.GuardedUntilMs.Store(untilMs)
		if ext := e.describeMirrors(bootstrapNode, true).Mirrors[0].Topics[0].Partitions[0].Ext; ext.OffsetGuard != guard {
			t.Errorf("guard %q, want %q", ext.OffsetGuard, guard)
		}
	}
	live.OpenTransactionOffset.Store(90)
	if ext := e.describeMirrors(bootstrapNode, true).Mirrors[0].Topics[0].Partitions[0].Ext; ext.ErrorMessage != "waits at offset 90 for a transaction of the source to end" {
		t.Errorf("what it waits for: %q", ext.ErrorMessage)
	}
	live.OpenTransactionOffset.Store(-1)
	live.InDoubt.Store(true)
	if ext := e.describeMirrors(bootstrapNode, true).Mirrors[0].Topics[0].Partitions[0].Ext; !strings.Contains(ext.ErrorMessage, "mirror.produce.ambiguous.wait.ms") {
		t.Errorf("what it waits for: %q", ext.ErrorMessage)
	}
	live.InDoubt.Store(false)
	live.DestinationOffset.Store(105) // read after the source's figure
	check("m1 orders-0 100 105 0 MIRRORING")
	live.SourceOffset.Store(-1)
	check("m1 orders-0 -1 105 -1 MIRRORING")

	e.do(state.MovePartition{Partition: id, To: state.Failed, LastMirroredOffset: -1, Error: "the source is gone", Attempt: 3})
	check("m1 orders-0 -1 -1 -1 FAILED")
	e.live.SetMirrorError("m1", "connection refused")
	m := e.describeMirrors(bootstrapNode, true).Mirrors[0]
	if ext := m.Topics[0].Partitions[0].Ext; ext.ErrorMessage != "the source is gone" || ext.Attempt != 3 ||
		ext.LastError != "the source is gone" || ext.LagMs != -1 || ext.OffsetGuard != "" {
		t.Errorf("our fields are %+v", ext)
	}
	if m.Ext.LastError != "connection refused" || m.Ext.SourceClusterID != sourceID || m.Ext.Engine != "produce" ||
		m.Ext.SourceBootstrap == "" {
		t.Errorf("our fields are %+v", m.Ext)
	}
	if plain := e.describeMirrors(bootstrapNode, false).Mirrors[0]; plain.Ext != nil || plain.Topics[0].Partitions[0].Ext != nil {
		t.Error("our fields are there without the marker")
	}
}

func TestDescribeMirrorsByName(t *testing.T) {
	e := newEnv(t)
	fill(e)
	e.mirror("empty")
	names := func(resp *mirrormsg.DescribeMirrorsResponse) (names []string) {
		for _, m := range resp.Mirrors {
			names = append(names, m.MirrorName)
		}
		return names
	}
	if got := names(e.describeMirrors(bootstrapNode, false)); !slices.Equal(got, []string{"m", "other"}) {
		t.Errorf("all mirrors: %v", got)
	}
	if got := names(e.describeMirrors(bootstrapNode, true)); !slices.Equal(got, []string{"empty", "m", "other"}) {
		t.Errorf("all mirrors, for a client of ours: %v", got)
	}
	if got := names(e.describeMirrors(bootstrapNode, false, "other", "nope", "other")); !slices.Equal(got, []string{"other"}) {
		t.Errorf("by name: %v", got)
	}
	wantStatus(t, &e.describeMirrors(bootstrapNode, false, "nope").Status, mirrormsg.UnknownMirror, `mirror "nope" does not exist`)
	// The command-line tool is tested against an answer of this form.
	nope := e.describeMirrors(bootstrapNode, true, "nope")
	wantStatus(t, &nope.Status, mirrormsg.UnknownMirror, `mirror "nope" does not exist`)
	if len(nope.Mirrors) != 1 || nope.Mirrors[0].MirrorName != "nope" || nope.Mirrors[0].ErrorCode != mirrormsg.UnknownMirror {
		t.Errorf("answer is %+v", nope)
	}
	resp := e.describeMirrors(bootstrapNode, true, "m", "nope")
	wantStatus(t, &resp.Status, 0, "")
	if last := resp.Mirrors[len(resp.Mirrors)-1]; last.MirrorName != "nope" || last.ErrorCode != mirrormsg.UnknownMirror {
		t.Errorf("the unknown mirror is %+v", last)
	}
}

func TestLeadersAreKeptForASecond(t *testing.T) {
	e := newEnv(t, brokers(2), sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	e.mustAdd("m1", "orders")
	move := func(node int32) {
		if err := e.destination.MoveTopicPartition("orders", 0, node); err != nil {
			t.Fatal(err)
		}
	}
	reports := func(node int32) bool { return len(e.describeMirrors(node, false).Mirrors) == 1 }
	move(0)
	if !reports(0) || reports(1) {
		t.Error("the partition is not reported by broker 0 alone")
	}
	move(1)
	if !reports(0) {
		t.Error("the leader was asked for again within a second")
	}
	e.nowMs.Add(leadersValid.Milliseconds())
	if reports(0) || !reports(1) {
		t.Error("the leader is not the new one after a second")
	}
}

// What mirror.gap.policy=skip has let pass stays to be seen while the partition is MIRRORING.
func TestDescribeTellsWhatWasSkipped(t *testing.T) {
	e := newEnv(t, sourceTopics(map[string]int32{"orders": 1}))
	e.mirror("m1")
	topic := e.mustAdd("m1", "orders")[0]
	e.move(topic, -1, state.Preparing, state.Mirroring)
	const note = "orders-0 lacks the source's records at offsets 10 to 49"
	id := state.PartitionID{Topic: topic.ID}
	e.do(state.SetProgress{Partition: id, Progress: state.Progress{ReservedBy: 1, Skipped: state.Skipped{From: 10, To: 50, Records: 40, Note: note}}})
	req := &mirrormsg.DescribeMirrorsRequest{}
	req.SetExtended(true)
	row := call[*mirrormsg.DescribeMirrorsResponse](e, bootstrapNode, req).Mirrors[0].Topics[0].Partitions[0]
	if row.State != "MIRRORING" || row.Ext.LastError != note || row.Ext.ErrorMessage != "" {
		t.Errorf("%+v %+v", row, row.Ext)
	}
}
