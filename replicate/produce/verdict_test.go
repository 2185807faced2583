package produce

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A record without key at a destination that was made compacted is named; INVALID_RECORD for another reason is not taken for
// it.
func TestVerdictNamesTheRecordWithoutKey(t *testing.T) {
	record := kmsg.NewProduceResponseTopicPartitionErrorRecord()
	record.RelativeOffset = 3
	record.ErrorMessage = kmsg.StringPtr("Compacted topic cannot accept message without key in topic partition t-1.")
	answer := kmsg.NewProduceResponseTopicPartition()
	answer.ErrorCode, answer.ErrorRecords = kerr.InvalidRecord.Code, append(answer.ErrorRecords, record)
	target := Target{Topic: "t", Partition: 1}
	fault := verdict(target, Batch{BaseOffset: 100, Count: 10}, &answer)
	if fault == nil || fault.Verdict != Refused || !strings.Contains(fault.Error(), "t-1: the destination topic is compacted") || !strings.Contains(fault.Error(), "offset 103 has no key") {
		t.Errorf("%v", fault)
	}
	answer.ErrorRecords[0].ErrorMessage = kmsg.StringPtr("Timestamp 5 of message with offset 3 is out of range.")
	fault = verdict(target, Batch{BaseOffset: 100, Count: 10}, &answer)
	if fault == nil || fault.Verdict != Refused || strings.Contains(fault.Error(), "key") {
		t.Errorf("%v", fault)
	}
}
