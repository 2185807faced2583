package state

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/testenv"
)

// A view counts as fresh only while it is confirmed: not when the destination does not say where the log ends, and not
// when the log goes on and its records do not arrive.
func TestFresh(t *testing.T) {
	fake := testenv.NewFake(t, testenv.FakeConfig{})
	s := start(t, &cluster{bootstrap: fake.Bootstrap()}, "a", nil)
	if s.Fresh() {
		t.Error("fresh before anything was read")
	}
	s.awaitOwner(t)
	await := func(want bool, when string) {
		t.Helper()
		testenv.Eventually(t, patience, when, func() error {
			if s.FreshView().Loaded() != want {
				return errors.New("it is not so")
			}
			return nil
		})
		if !s.View().Loaded() {
			t.Errorf("%s: the view is not loaded", when)
		}
		if _, ok := s.FreshView().StateTopicID(); !ok {
			t.Errorf("%s: the view to judge by does not know the state topic's id", when)
		}
	}
	await(true, "fresh once loaded")

	trouble := true
	fake.ControlKey(int16(kmsg.ListOffsets), func(request kmsg.Request) (kmsg.Response, error, bool) {
		if !trouble {
			return nil, nil, false
		}
		fake.KeepControl()
		response := request.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, topic := range request.(*kmsg.ListOffsetsRequest).Topics {
			answered := kmsg.NewListOffsetsResponseTopic()
			answered.Topic = topic.Topic
			for _, p := range topic.Partitions {
				partition := kmsg.NewListOffsetsResponseTopicPartition()
				partition.Partition, partition.ErrorCode = p.Partition, kerr.KafkaStorageError.Code
				answered.Partitions = append(answered.Partitions, partition)
			}
			response.Topics = append(response.Topics, answered)
		}
		return response, nil, true
	})
	await(false, "not fresh while nobody says where the log ends")
	fake.Control(func(kmsg.Request) (kmsg.Response, error, bool) { trouble = false; return nil, nil, false })
	await(true, "fresh again")

	fake.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		return request.ResponseKind(), nil, true // an answer without data
	})
	await(false, "not fresh while the records do not arrive")
}

// What an owner of the past says about a reservation must not hide that of a later one.
func TestProgressOfAnEarlierOwnerIsRefused(t *testing.T) {
	s := NewMemory()
	do(t, s, CreateMirror{"m", nil}, AddTopic{Mirror: "m", Name: "t", ID: theID, Partitions: 1}, ConfirmTopic{theID})
	p := PartitionID{theID, 0}
	do(t, s, SetProgress{p, Progress{-1, 100, 2, -1, -1, nil, 0, Skipped{}}})
	if err := s.Do(t.Context(), SetProgress{p, Progress{-1, -1, 1, -1, -1, nil, 0, Skipped{}}}); code(err) != CodeNotOwner {
		t.Errorf("%v", err)
	}
	if got := s.View().Progress(p); got.ReservedOffset != 100 || got.ReservedBy != 2 {
		t.Errorf("%+v", got)
	}
	do(t, s, SetProgress{p, Progress{-1, -1, 3, 100, -1, nil, 0, Skipped{}}})
}
