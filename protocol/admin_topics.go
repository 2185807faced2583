package protocol

import "github.com/twmb/franz-go/pkg/kmsg"

// The three requests below are split in the same way: what names __mirror_state is answered here with
// TOPIC_AUTHORIZATION_FAILED, the rest goes upstream, and the refused rows follow the broker's. Brokers promise no order of
// the rows in these answers, and clients look them up by name.

// takeOut takes the entries of all for which concerns is true out and returns what is left and what was taken.
func takeOut[T any](all []T, concerns func(*T) bool) (left, taken []T) {
	for i := range all {
		if concerns(&all[i]) {
			taken = append(taken, all[i])
		} else {
			left = append(left, all[i])
		}
	}
	return left, taken
}

func splitDeleteTopics(version int16, body []byte, p AdminPolicy) (AdminSplit, error) {
	request := kmsg.NewPtrDeleteTopicsRequest()
	if err := decodeCopy(version, body, request); err != nil {
		return AdminSplit{}, err
	}
	names, takenNames := takeOut(request.TopicNames, func(name *string) bool { return p.StateTopic([]byte(*name)) })
	topics, takenTopics := takeOut(request.Topics, func(t *kmsg.DeleteTopicsRequestTopic) bool {
		return t.Topic != nil && p.StateTopic([]byte(*t.Topic)) || t.TopicID != [16]byte{} && p.StateTopicID(t.TopicID)
	})
	if len(takenNames)+len(takenTopics) == 0 {
		return AdminSplit{}, nil
	}
	s := AdminSplit{UpstreamVersion: version}
	if len(names)+len(topics) > 0 {
		request.TopicNames, request.Topics = names, topics
		s.Upstream = encode(request, len(body))
	}
	for i := range takenNames {
		takenTopics = append(takenTopics, kmsg.DeleteTopicsRequestTopic{Topic: &takenNames[i]})
	}
	s.Merge = func(upstreamBody, _ []byte) ([]byte, error) {
		r := kmsg.NewPtrDeleteTopicsResponse()
		if err := decodeAnswer(version, upstreamBody, r); err != nil {
			return nil, err
		}
		for _, t := range takenTopics {
			row := kmsg.NewDeleteTopicsResponseTopic()
			row.Topic, row.TopicID = t.Topic, t.TopicID
			row.ErrorCode, row.ErrorMessage = CodeTopicAuthorizationFailed, text(MessageStateTopic)
			r.Topics = append(r.Topics, row)
		}
		return encode(r, len(upstreamBody)), nil
	}
	return s, nil
}

func splitDeleteRecords(version int16, body []byte, p AdminPolicy) (AdminSplit, error) {
	request := kmsg.NewPtrDeleteRecordsRequest()
	if err := decodeCopy(version, body, request); err != nil {
		return AdminSplit{}, err
	}
	left, taken := takeOut(request.Topics, func(t *kmsg.DeleteRecordsRequestTopic) bool { return p.StateTopic([]byte(t.Topic)) })
	if len(taken) == 0 {
		return AdminSplit{}, nil
	}
	s := AdminSplit{UpstreamVersion: version}
	if len(left) > 0 {
		request.Topics = left
		s.Upstream = encode(request, len(body))
	}
	s.Merge = func(upstreamBody, _ []byte) ([]byte, error) {
		r := kmsg.NewPtrDeleteRecordsResponse()
		if err := decodeAnswer(version, upstreamBody, r); err != nil {
			return nil, err
		}
		for _, t := range taken {
			rows := kmsg.NewDeleteRecordsResponseTopic()
			rows.Topic = t.Topic
			for _, p := range t.Partitions {
				row := kmsg.NewDeleteRecordsResponseTopicPartition()
				row.Partition, row.LowWatermark, row.ErrorCode = p.Partition, -1, CodeTopicAuthorizationFailed
				rows.Partitions = append(rows.Partitions, row)
			}
			r.Topics = append(r.Topics, rows)
		}
		return encode(r, len(upstreamBody)), nil
	}
	return s, nil
}

func splitCreatePartitions(version int16, body []byte, p AdminPolicy) (AdminSplit, error) {
	request := kmsg.NewPtrCreatePartitionsRequest()
	if err := decodeCopy(version, body, request); err != nil {
		return AdminSplit{}, err
	}
	left, taken := takeOut(request.Topics, func(t *kmsg.CreatePartitionsRequestTopic) bool { return p.StateTopic([]byte(t.Topic)) })
	if len(taken) == 0 {
		return AdminSplit{}, nil
	}
	s := AdminSplit{UpstreamVersion: version}
	if len(left) > 0 {
		request.Topics = left
		s.Upstream = encode(request, len(body))
	}
	s.Merge = func(upstreamBody, _ []byte) ([]byte, error) {
		r := kmsg.NewPtrCreatePartitionsResponse()
		if err := decodeAnswer(version, upstreamBody, r); err != nil {
			return nil, err
		}
		for _, t := range taken {
			row := kmsg.NewCreatePartitionsResponseTopic()
			row.Topic, row.ErrorCode, row.ErrorMessage = t.Topic, CodeTopicAuthorizationFailed, text(MessageStateTopic)
			r.Topics = append(r.Topics, row)
		}
		return encode(r, len(upstreamBody)), nil
	}
	return s, nil
}
