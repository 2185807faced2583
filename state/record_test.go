package state

import (
	"bytes"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func ptr[T any](v T) *T { return &v }

var goldenKey = partitionKey{"m", TopicID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, 3}

// golden pins the bytes of each record: what one version of the proxy wrote the next has to read.
var golden = []struct {
	name       string
	record     record
	key, value string
	partition  int32 // of 50
}{
	{"last offset", lastOffsetRecord{goldenKey, ptr(int64(5))},
		"0001" + "00016d" + "0102030405060708090a0b0c0d0e0f10" + "00000003", "0000" + "0000000000000005" + "00", 41},
	{"status", statusRecord{goldenKey, &Partition{Status: Failed, Previous: Unknown, LastMirroredOffset: -1, SinceMs: 7, Attempt: 2, Error: "e", Retriable: true}},
		"0002" + "00016d" + "0102030405060708090a0b0c0d0e0f10" + "00000003",
		"0000" + "06" + "10" + "00000002" + "0265" + "01" + "0000000000000007" + "00", 41},
	{"mirror", mirrorRecord{"m", &Mirror{Name: "m", Configs: map[string]string{"b": "2", "a": "1"}, SourceClusterID: "c", Revision: 9}},
		"0064" + "00016d", "0000" + "03" + "0261" + "0231" + "00" + "0262" + "0232" + "00" + "0263" + "0000000000000009" + "00", 9},
	{"topic", topicRecord{goldenKey.topic, &Topic{
		Mirror: "m", Name: "t", ID: goldenKey.topic, SourceID: TopicID{9}, Partitions: 4, Desired: DesiredAdding, WasStopped: true,
		PauseWhenAdded: true, Engine: "p", HandBack: map[string]*string{"k": nil, "l": ptr("v")}, Error: "e",
		prior: &Topic{Mirror: "n", Name: "t", ID: goldenKey.topic, Partitions: 1, Desired: DesiredStopped},
	}},
		"0065" + "0102030405060708090a0b0c0d0e0f10",
		"0000" + "026d" + "0274" + "09000000000000000000000000000000" + "00000004" + "01" + "01" + "01" + "0270" +
			"03" + "026b" + "00" + "00" + "026c" + "0276" + "00" + "0265" + "01" +
			"026e" + "0274" + "00000000000000000000000000000000" + "00000001" + "04" + "00" + "00" + "01" + "01" + "01" + "00" + "00", 19},
	{"progress", progressRecord{goldenKey, &Progress{FillToOffset: -1, ReservedOffset: 2, ReservedBy: 3, UncleanOffset: 4, CopiedOffset: 7, Epochs: []EpochRun{{5, 6}}}},
		"0066" + "00016d" + "0102030405060708090a0b0c0d0e0f10" + "00000003",
		"0000" + "ffffffffffffffff" + "0000000000000002" + "0000000000000003" + "0000000000000004" + "0000000000000007" + "02" + "00000005" + "0000000000000006" + "00" + "00", 41},
	{"owner", ownerRecord{ownerState{Owner{"i", "a:1", 2}, 3, true}},
		"0067", "0000" + "0269" + "04613a31" + "0000000000000002" + "0000000000000003" + "01" + "00", 15},
	{"sync", syncRecord{"i"}, "0068" + "000169", "", -1},
	{"source id", sourceIDRecord{"t", ptr(TopicID{9})}, "0069" + "000174", "0000" + "09000000000000000000000000000000" + "00", 16},
	{"broker config", brokerConfigRecord{"c", &keptConfig{ptr("v")}}, "006c" + "000163", "0000" + "0276" + "00", 49},
	{"broker config that was not set", brokerConfigRecord{"c", &keptConfig{}}, "006c" + "000163", "0000" + "00" + "00", 49},
	{"born", bornRecord{}, "006a", "0000" + "00", 15},
	{"former", formerRecord{goldenKey.topic, "t"}, "006b" + "0102030405060708090a0b0c0d0e0f10", "0000" + "0274" + "00", 19},
}

var compareRecords = cmp.AllowUnexported(lastOffsetRecord{}, statusRecord{}, mirrorRecord{}, topicRecord{}, progressRecord{},
	ownerRecord{}, syncRecord{}, sourceIDRecord{}, bornRecord{}, formerRecord{}, brokerConfigRecord{}, keptConfig{}, partitionKey{}, Topic{})

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	if s == "" {
		return nil
	}
	return b
}

func TestRecordGolden(t *testing.T) {
	for _, g := range golden {
		key, value := unhex(t, g.key), unhex(t, g.value)
		if got := g.record.appendKey(nil); !bytes.Equal(got, key) {
			t.Errorf("%s: key %x, want %x", g.name, got, key)
		}
		if got := g.record.appendValue(nil); !bytes.Equal(got, value) {
			t.Errorf("%s: value %x, want %x", g.name, got, value)
		}
		decoded, err := decodeRecord(key, value)
		if err != nil {
			t.Errorf("%s: %v", g.name, err)
		} else if diff := cmp.Diff(g.record, decoded, compareRecords); diff != "" {
			t.Errorf("%s: %s", g.name, diff)
		}
		if g.partition >= 0 {
			if got := placePartition(g.record.placement(), 50); got != g.partition {
				t.Errorf("%s: partition %d, want %d", g.name, got, g.partition)
			}
		}
	}
}

// TestRecordDamaged: no prefix, no extra byte, no other version and no unknown type passes, and a later writer's tagged
// fields do.
func TestRecordDamaged(t *testing.T) {
	for _, g := range golden {
		key, value := unhex(t, g.key), unhex(t, g.value)
		for n := range key {
			if _, err := decodeRecord(key[:n:n], value); err == nil {
				t.Errorf("%s: %d bytes of the key were accepted", g.name, n)
			}
		}
		if _, err := decodeRecord(append(bytes.Clone(key), 0), value); err == nil {
			t.Errorf("%s: a longer key was accepted", g.name)
		}
		if value == nil {
			continue
		}
		for n := range value {
			if _, err := decodeRecord(key, value[:n:n]); err == nil {
				t.Errorf("%s: %d bytes of the value were accepted", g.name, n)
			}
		}
		if _, err := decodeRecord(key, append(bytes.Clone(value), 0)); err == nil {
			t.Errorf("%s: a longer value was accepted", g.name)
		}
		newer := append([]byte{0, 1}, value[2:]...)
		if _, err := decodeRecord(key, newer); !errors.Is(err, errNewerRecord) {
			t.Errorf("%s: a newer version: %v", g.name, err)
		}
		tagged := append(value[:len(value)-1:len(value)-1], 2, 7, 1, 0xff, 9, 0)
		decoded, err := decodeRecord(key, tagged)
		if err != nil {
			t.Errorf("%s: with tagged fields: %v", g.name, err)
		} else if diff := cmp.Diff(g.record, decoded, compareRecords); diff != "" {
			t.Errorf("%s: with tagged fields: %s", g.name, diff)
		}
		countTooLarge := append(value[:len(value)-1:len(value)-1], 0xff, 0xff, 0xff, 0xff, 0x0f)
		if _, err := decodeRecord(key, countTooLarge); err == nil {
			t.Errorf("%s: 2^32-1 tagged fields were accepted", g.name)
		}
	}
	if _, err := decodeRecord([]byte{0, 109}, nil); !errors.Is(err, errNewerRecord) {
		t.Errorf("an unknown type: %v", err)
	}
	for _, key := range []string{"0067", "006a"} {
		if _, err := decodeRecord(unhex(t, key), nil); err == nil {
			t.Errorf("a tombstone of key %s was accepted", key)
		}
	}
	far := statusRecord{partitionKey: partitionKey{"m", TopicID{}, maxPartition + 1}}
	if _, err := decodeRecord(far.appendKey(nil), nil); err == nil {
		t.Error("a partition out of range was accepted")
	}
}

func FuzzDecodeRecord(f *testing.F) {
	for _, g := range golden {
		f.Add(g.record.appendKey(nil), g.record.appendValue(nil))
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		r, err := decodeRecord(key, value)
		if err != nil {
			return
		}
		r.apply(newDraft())
		if !bytes.Equal(r.appendKey(nil), key) {
			t.Errorf("key %x becomes %x", key, r.appendKey(nil))
		}
	})
}

func TestPlacePartition(t *testing.T) {
	for _, c := range []struct {
		placement string
		n, want   int32
	}{
		{"", 50, 0},
		{"m", 50, 9},                       // 109
		{"hello", 50, 22},                  // 99162322
		{"polygenelubricants", 50, 0},      // the smallest int32, whose abs is 0 here
		{"\U0001f600", 1 << 30, 1_772_899}, // two UTF-16 units: 31*0xd83d + 0xde00
	} {
		if got := placePartition(c.placement, c.n); got != c.want {
			t.Errorf("%q in %d partitions: %d, want %d", c.placement, c.n, got, c.want)
		}
	}
}

// TestReplay: whatever commands made a log, any compaction of it and any interleaving of its partitions gives the same
// view, also after a detour through bytes.
func TestReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDraft()
		var log []record
		for now := range rapid.IntRange(0, 60).Draw(t, "commands") {
			command := randomCommand(t)
			records, err := d.decideAll([]Command{command}, int64(now))
			if err != nil {
				continue
			}
			log = append(log, records...)
			if rapid.Bool().Draw(t, "viewed") {
				d.view()
			}
		}
		want := contents(d.view())
		got := contents(replay(t, shuffle(t, compact(t, log))).view())
		if diff := diffContents(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestRefusedLeavesNoTrace: commands before one that is refused are undone.
func TestRefusedLeavesNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDraft()
		for range rapid.IntRange(0, 40).Draw(t, "before") {
			_, _ = d.decideAll([]Command{randomCommand(t)}, 0)
		}
		before := contents(d.view())
		var commands []Command
		for range rapid.IntRange(0, 10).Draw(t, "commands") {
			commands = append(commands, randomCommand(t))
		}
		refused := SetTopicError{ID: TopicID{99}, Error: "no such topic"}
		if _, err := d.decideAll(append(commands, refused), 1); err == nil {
			t.Fatal("not refused")
		}
		if diff := diffContents(before, contents(d.view())); diff != "" {
			t.Fatal(diff)
		}
	})
}

// compact drops any records that are followed by one of the same key, and some keys that end in a tombstone altogether:
// a cleaner drops a tombstone only when nothing of its key is left before it.
func compact(t *rapid.T, log []record) (kept []record) {
	last := map[string]int{}
	for i, r := range log {
		last[string(r.appendKey(nil))] = i
	}
	gone := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(last)) {
		i := last[key]
		gone[key] = log[i].appendValue(nil) == nil && rapid.Bool().Draw(t, "gone")
	}
	for i, r := range log {
		key := r.appendKey(nil)
		if !gone[string(key)] && (last[string(key)] == i || rapid.Bool().Draw(t, "kept")) {
			kept = append(kept, r)
		}
	}
	return kept
}

// shuffle interleaves the partitions of the log, each in order.
func shuffle(t *rapid.T, log []record) (mixed []record) {
	partitions := make([][]record, 5)
	for _, r := range log {
		p := placePartition(r.placement(), 5)
		partitions[p] = append(partitions[p], r)
	}
	for len(mixed) < len(log) {
		p := rapid.IntRange(0, 4).Draw(t, "partition")
		for len(partitions[p]) == 0 {
			p = (p + 1) % 5
		}
		mixed, partitions[p] = append(mixed, partitions[p][0]), partitions[p][1:]
	}
	return mixed
}

func replay(t *rapid.T, log []record) *draft {
	d := newDraft()
	for _, r := range log {
		decoded, err := decodeRecord(r.appendKey(nil), r.appendValue(nil))
		if err != nil {
			t.Fatal(err)
		}
		decoded.apply(d)
		if rapid.Bool().Draw(t, "viewed") {
			d.view()
		}
	}
	return d
}

func randomCommand(t *rapid.T) Command {
	mirror := rapid.SampledFrom([]string{"m", "n"}).Draw(t, "mirror")
	number := rapid.IntRange(1, 4).Draw(t, "topic")
	id, name := TopicID{byte(number)}, []string{"a", "b", "c"}[number%3] // two ids share a name
	p := PartitionID{id, rapid.Int32Range(0, 2).Draw(t, "partition")}
	n := rapid.Int64Range(-1, 9).Draw(t, "n")
	return rapid.SampledFrom([]Command{
		CreateMirror{mirror, map[string]string{"k": "v"}},
		AlterMirror{mirror, map[string]string{"k": "w"}, nil},
		DeleteMirror{mirror},
		SetSourceCluster{mirror, "c"},
		AddTopic{Mirror: mirror, Name: name, ID: id, SourceID: TopicID{9}, Partitions: 2, Engine: "e", HandBack: map[string]*string{"x": nil}},
		AddTopic{Mirror: mirror, Name: name, ID: id, Partitions: 1},
		ConfirmTopic{id}, ConfirmTopic{id}, RollbackTopic{id},
		RemoveTopic{mirror, name}, PauseTopic{mirror, name}, ResumeTopic{mirror, name},
		MovePartition{Partition: p, To: Preparing, LastMirroredOffset: -1},
		MovePartition{Partition: p, To: Mirroring, LastMirroredOffset: n},
		MovePartition{Partition: p, To: Stopping, LastMirroredOffset: -1},
		MovePartition{Partition: p, To: Stopped, LastMirroredOffset: n},
		MovePartition{Partition: p, To: Failed, LastMirroredOffset: -1, Error: "e", Retriable: true, Attempt: 1},
		SetProgress{p, Progress{n, n, n, n, n, []EpochRun{{1, n}}, n, Skipped{n, n, n, "n"}}},
		GrowTopic{id, 3}, SetTopicError{id, "bad"}, ForgetTopic{id}, KeepBrokerConfig{name, &name}, ForgetBrokerConfig{name}, RememberSourceID{name, TopicID{byte(n + 1)}},
	}).Draw(t, "command")
}

// TestTaggedFields: what later versions added reads back, an older reader leaves it out, and damage in it is seen.
func TestTaggedFields(t *testing.T) {
	progress := progressRecord{goldenKey, &Progress{FillToOffset: -1, CopiedOffset: 7, CopiedAtMs: 9, Skipped: Skipped{From: 1, To: 4, Records: 3, Note: "n"}}}
	topic := topicRecord{goldenKey.topic, &Topic{Mirror: "m", Name: "t", ID: goldenKey.topic, Partitions: 1, Desired: DesiredMirroring, Guard: GuardFound}}
	for _, test := range []struct {
		record record
		tags   string
	}{
		{progress, "02" + "00" + "08" + "0000000000000009" + "01" + "1a" + "0000000000000001" + "0000000000000004" + "0000000000000003" + "026e"},
		{topic, "01" + "00" + "01" + "02"},
	} {
		value := test.record.appendValue(nil)
		tags := unhex(t, test.tags)
		if !bytes.HasSuffix(value, tags) {
			t.Errorf("%x does not end in %x", value, tags)
		}
		key := test.record.appendKey(nil)
		decoded, err := decodeRecord(key, value)
		if diff := cmp.Diff(test.record, decoded, compareRecords); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
		for n := range value {
			if _, err := decodeRecord(key, value[:n:n]); err == nil {
				t.Errorf("%T: %d bytes of the value were accepted", test.record, n)
			}
		}
		long := bytes.Clone(value[:len(value)-len(tags)])
		long = append(long, 1, 0, 10, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0) // a field 0 of 10 bytes
		if _, err := decodeRecord(key, long); err == nil {
			t.Errorf("%T: a field with bytes left over was accepted", test.record)
		}
	}
}
