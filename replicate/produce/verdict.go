package produce

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
)

// verdict judges a broker's answer for one batch; nil means that it stands at its offset.
func verdict(target Target, b Batch, answer *kmsg.ProduceResponseTopicPartition) *Fault {
	last := b.BaseOffset + int64(b.Count) - 1
	if answer.ErrorCode == 0 {
		switch {
		case answer.BaseOffset == b.BaseOffset && !otherTime(b, answer.LogAppendTime):
			return nil
		case answer.BaseOffset == b.BaseOffset:
			// A topic with message.timestamp.type=LogAppendTime, or another owner's batch of the same offsets: filler has the
			// timestamps of whoever made it. Align sees what stands there.
			return Faultf(Retry, "%s: the batch of offsets %d to %d stands there with other timestamps", target, b.BaseOffset, last)
		}
		return Faultf(Quarantined, "%s: the batch of source offsets %d to %d was appended at offset %d: something other than the mirror wrote to the topic. "+
			"Compare with the source, then recreate the topic or remove it from the mirror", target, b.BaseOffset, last, answer.BaseOffset)
	}
	err := kerr.ErrorForCode(answer.ErrorCode)
	detail := ""
	if answer.ErrorMessage != nil {
		detail = " (" + *answer.ErrorMessage + ")"
	}
	where := "produce to " + target.String()
	switch err {
	case kerr.InvalidRecord:
		if record, ok := withoutKey(answer); ok {
			return Because(Refused, err, "%s: the destination topic is compacted (cleanup.policy) and the source's record at offset %d has no key. "+
				"Take compact out of the topic's cleanup.policy on the destination; mirroring then goes on by itself", where, b.BaseOffset+int64(record))
		}
	case kerr.RecordListTooLarge:
		return Because(Refused, err, "%s: the batch at offset %d has %d bytes, more than the topic's segment.bytes on the destination allows", where, b.BaseOffset, len(b.Bytes))
	case kerr.MessageTooLarge:
		fault := Because(Refused, err, "%s: the batch at offset %d has %d bytes, more than the topic's max.message.bytes on the destination allows", where, b.BaseOffset, len(b.Bytes))
		fault.TooLargeBytes = len(b.Bytes)
		return fault
	case kerr.OutOfOrderSequenceNumber, kerr.InvalidProducerEpoch, kerr.DuplicateSequenceNumber, kerr.UnknownProducerID:
		// Somebody else was here, or the log is not where we thought: Align finds out.
		return Because(Retry, err, "%s: the batch at offset %d is not in sequence", where, b.BaseOffset)
	case kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InconsistentTopicID, kerr.LeaderNotAvailable, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch,
		kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut, kerr.KafkaStorageError, kerr.ReplicaNotAvailable, kerr.NetworkException,
		kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.CorruptMessage, kerr.ThrottlingQuotaExceeded:
		// The broker has answered: nothing of this batch can still come. With "after append" and
		// "timed out" it stands in the leader's log, which Align sees.
		return Because(Retry, err, "%s: the batch at offset %d", where, b.BaseOffset)
	}
	return Because(Refused, err, "%s: the broker refuses the batch of offsets %d to %d%s", where, b.BaseOffset, last, detail)
}

// withoutKey finds the first record of a batch that a compacted topic cannot take, by the words of the broker
// (LogValidator): the error code alone stands for many other things.
func withoutKey(answer *kmsg.ProduceResponseTopicPartition) (index int32, ok bool) {
	for _, record := range answer.ErrorRecords {
		if record.ErrorMessage != nil && strings.Contains(*record.ErrorMessage, "without key") {
			return record.RelativeOffset, true
		}
	}
	return 0, false
}

// otherTime says that the broker tells of other timestamps than the batch's. Besides its own time, which it puts on the
// batches of some topics, it tells the last timestamp of a batch that an owner before us had appended already.
func otherTime(b Batch, logAppendTimeMs int64) bool {
	return logAppendTimeMs != -1 && logAppendTimeMs != batch.Batch(b.Bytes).MaxTimestamp()
}
