package protocol

import "github.com/twmb/franz-go/pkg/kmsg"

// The three requests below are split in the same way: what is refused is answered here, the rest goes upstream, and the
// refused rows follow the broker's. Brokers promise no order of the rows in these answers, and clients look them up by name.

// refusedEntry is an entry of a request that is refused, and why.
type refusedEntry[T any] struct {
	entry T
	verdict
}

// takeOut takes the entries of all that judge refuses out and returns what is left and what was taken.
func takeOut[T any](all []T, judge func(*T) verdict) (left []T, taken []refusedEntry[T]) {
	for i := range all {
		if v := judge(&all[i]); v.upstream() {
			left = append(left, all[i])
		} else {
			taken = append(taken, refusedEntry[T]{all[i], v})
		}
	}
	return left, taken
}

// refuseIf refuses what names the state topic.
func refuseIf(stateTopic bool) verdict {
	if stateTopic {
		return verdict{code: CodeTopicAuthorizationFailed, message: MessageStateTopic}
	}
	return verdict{}
}

// judgeShape judges a change of what a topic consists of, its "records" or "partitions": while it is mirrored, source and
// destination would come to differ.
func judgeShape(topic, what string, p AdminPolicy) verdict {
	if v := refuseIf(p.StateTopic([]byte(topic))); !v.upstream() {
		return v
	}
	if mirror, ok := p.ReadOnlyTopic(topic); ok {
		return verdict{code: CodePolicyViolation,
			message: "The " + what + " of topic " + topic + " follow its source while it is mirrored by mirror " + mirror + "."}
	}
	return verdict{}
}

func splitDeleteTopics(version int16, body []byte, p AdminPolicy) (AdminSplit, error) {
	request := kmsg.NewPtrDeleteTopicsRequest()
	if err := decodeCopy(version, body, request); err != nil {
		return AdminSplit{}, err
	}
	names, takenNames := takeOut(request.TopicNames, func(name *string) verdict { return refuseIf(p.StateTopic([]byte(*name))) })
	topics, takenTopics := takeOut(request.Topics, func(t *kmsg.DeleteTopicsRequestTopic) verdict {
		return refuseIf(t.Topic != nil && p.StateTopic([]byte(*t.Topic)) || t.TopicID != [16]byte{} && p.StateTopicID(t.TopicID))
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
		named := kmsg.DeleteTopicsRequestTopic{Topic: &takenNames[i].entry}
		takenTopics = append(takenTopics, refusedEntry[kmsg.DeleteTopicsRequestTopic]{named, takenNames[i].verdict})
	}
	s.Merge = merge(version, kmsg.NewPtrDeleteTopicsResponse, func(r *kmsg.DeleteTopicsResponse) {
		for _, t := range takenTopics {
			row := kmsg.NewDeleteTopicsResponseTopic()
			row.Topic, row.TopicID = t.entry.Topic, t.entry.TopicID
			row.ErrorCode, row.ErrorMessage = t.code, text(t.message)
			r.Topics = append(r.Topics, row)
		}
	})
	return s, nil
}

func splitDeleteRecords(version int16, body []byte, p AdminPolicy) (AdminSplit, error) {
	request := kmsg.NewPtrDeleteRecordsRequest()
	judge := func(t *kmsg.DeleteRecordsRequestTopic) verdict { return judgeShape(t.Topic, "records", p) }
	s, taken, err := splitTopics(version, body, request, &request.Topics, judge)
	if err != nil || len(taken) == 0 {
		return s, err
	}
	s.Merge = merge(version, kmsg.NewPtrDeleteRecordsResponse, func(r *kmsg.DeleteRecordsResponse) {
		for _, t := range taken {
			rows := kmsg.NewDeleteRecordsResponseTopic()
			rows.Topic = t.entry.Topic
			for _, p := range t.entry.Partitions {
				row := kmsg.NewDeleteRecordsResponseTopicPartition()
				row.Partition, row.LowWatermark, row.ErrorCode = p.Partition, -1, t.code
				rows.Partitions = append(rows.Partitions, row)
			}
			r.Topics = append(r.Topics, rows)
		}
	})
	return s, nil
}

func splitCreatePartitions(version int16, body []byte, p AdminPolicy) (AdminSplit, error) {
	request := kmsg.NewPtrCreatePartitionsRequest()
	judge := func(t *kmsg.CreatePartitionsRequestTopic) verdict { return judgeShape(t.Topic, "partitions", p) }
	s, taken, err := splitTopics(version, body, request, &request.Topics, judge)
	if err != nil || len(taken) == 0 {
		return s, err
	}
	s.Merge = merge(version, kmsg.NewPtrCreatePartitionsResponse, func(r *kmsg.CreatePartitionsResponse) {
		for _, t := range taken {
			row := kmsg.NewCreatePartitionsResponseTopic()
			row.Topic, row.ErrorCode, row.ErrorMessage = t.entry.Topic, t.code, text(t.message)
			r.Topics = append(r.Topics, row)
		}
	})
	return s, nil
}

// splitTopics takes out of a request what judge refuses of its topics. With nothing taken it returns the zero AdminSplit.
func splitTopics[T any](version int16, body []byte, request message, topics *[]T, judge func(*T) verdict) (AdminSplit, []refusedEntry[T], error) {
	if err := decodeCopy(version, body, request); err != nil {
		return AdminSplit{}, nil, err
	}
	left, taken := takeOut(*topics, judge)
	if len(taken) == 0 {
		return AdminSplit{}, nil, nil
	}
	s := AdminSplit{UpstreamVersion: version}
	if len(left) > 0 {
		*topics = left
		s.Upstream = encode(request, len(body))
	}
	return s, taken, nil
}

// merge returns an AdminSplit.Merge that adds to the broker's answer.
func merge[R message](version int16, answer func() R, add func(R)) func(upstreamBody, _ []byte) ([]byte, error) {
	return func(upstreamBody, _ []byte) ([]byte, error) {
		r := answer()
		if err := decodeAnswer(version, upstreamBody, r); err != nil {
			return nil, err
		}
		add(r)
		return encode(r, len(upstreamBody)), nil
	}
}
