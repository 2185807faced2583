package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"

	"kafka-mirror-proxy/enforce"
	"kafka-mirror-proxy/protocol"
)

var (
	errNotLoaded = errors.New("the mirrors' state is not loaded")
	errReadOnly  = errors.New("produce with acks=0 to a read-only topic")
)

// produce passes a request on, refuses it, or splits it. A request of one topic is known after its
// name, so the records need not be looked at; one of several topics is held whole.
func (s *Session) produce(r *request) Decision {
	p, need, err := protocol.PeekProduce(r.Version, r.body())
	if err == nil && sizeBytes+r.BodyOffset+need > r.total {
		err = fmt.Errorf("%w: the topics end beyond the request", protocol.ErrMalformed)
	}
	if err != nil {
		return r.closing(CauseMalformed, err)
	}
	if need > 0 {
		return Decision{Verb: NeedMore, N: sizeBytes + r.BodyOffset + need}
	}
	if d, ok := s.loaded(func() Decision { return s.produceLate(r, p.Acks) }); !ok {
		return d
	}
	// The token comes before the first look at the view: see enforce.Gate.
	token := s.gate.Enter()
	if p.Topics == 0 || s.policy.Clear() {
		return s.produceForward(r, p.Acks, token)
	}
	if p.Topics == 1 {
		if _, refused := verdict(s.policy, p.First); !refused {
			return s.produceForward(r, p.Acks, token)
		}
		if p.Acks == 0 {
			token.Exit()
			s.metrics.refused(1)
			return r.closing(CauseRefusedAcks0, errReadOnly)
		}
	}
	if d, ok := r.whole(s.limits.RequestBytes); !ok {
		token.Exit()
		return d
	}
	remainder, refused, err := protocol.SplitProduce(r.Version, r.body(), s.refuse)
	switch {
	case err != nil:
		token.Exit()
		return r.closing(CauseMalformed, err)
	case len(refused) == 0:
		return s.produceForward(r, p.Acks, token)
	}
	s.metrics.refused(len(refused))
	switch {
	case p.Acks == 0:
		// Half of it could be passed on, but nothing would tell the client about the rest.
		token.Exit()
		return r.closing(CauseRefusedAcks0, errReadOnly)
	case remainder == nil:
		token.Exit()
		return s.answer(r, protocol.AppendProduceRefusal(nil, r.Version, refused))
	}
	e := s.entry(r, merge)
	e.token = token
	version := r.Version // a closure over r would put every request on the heap
	return s.merging(r, version, remainder, e, &call{merge: func(upstream, _ []byte) ([]byte, error) {
		merged, err := protocol.MergeProduce(version, upstream, refused)
		if err != nil {
			return nil, err
		}
		return protocol.EditProduceResponse(version, merged, s.observe)
	}})
}

// produceForward passes the request on. The token is exited when the broker has answered it, or,
// when it will not answer, the probe behind it.
func (s *Session) produceForward(r *request, acks int16, token enforce.Token) Decision {
	e := s.entry(r, relay)
	e.token = token
	if acks == 0 {
		e.kind, e.correlation = probe, probeCorrelation
		s.queue.push(e)
		return Decision{Verb: Forward, N: r.total, Data: probeFrame}
	}
	if protocol.HasNodeEndpoints(r.Key, r.Version) {
		e.kind = edit
	}
	s.queue.push(e)
	return Decision{Verb: Forward, N: r.total}
}

// produceLate answers a produce when the view was not loaded in time.
func (s *Session) produceLate(r *request, acks int16) Decision {
	if acks == 0 {
		return r.closing(CauseNotReady, errNotLoaded)
	}
	if d, ok := r.whole(s.limits.RequestBytes); !ok {
		return d
	}
	_, refused, err := protocol.SplitProduce(r.Version, r.body(), s.notLeader)
	if err != nil {
		return r.closing(CauseMalformed, err)
	}
	return s.answer(r, protocol.AppendProduceRefusal(nil, r.Version, refused))
}

// transaction passes an AddPartitionsToTxn or WriteTxnMarkers on when it names no read-only
// topic. It holds a token like a produce: it too leads to a record in the log.
func (s *Session) transaction(r *request, refuse func(int16, []byte, protocol.RefuseTopic) ([]byte, bool, error)) Decision {
	if d, ok := r.whole(s.limits.AdminBytes); !ok {
		return d
	}
	late := func() Decision {
		if r.Key != protocol.KeyAddPartitionsToTxn {
			return r.closing(CauseNotReady, errNotLoaded)
		}
		body, _, err := refuse(r.Version, r.body(), s.loading)
		if err != nil {
			return r.closing(CauseMalformed, err)
		}
		return s.answer(r, body)
	}
	if d, ok := s.loaded(late); !ok {
		return d
	}
	token := s.gate.Enter()
	body, refused, err := refuse(r.Version, r.body(), s.refuse)
	switch {
	case err != nil:
		token.Exit()
		return r.closing(CauseMalformed, err)
	case refused:
		token.Exit()
		s.metrics.refused(1)
		return s.answer(r, body)
	}
	e := s.entry(r, relay)
	e.token = token
	s.queue.push(e)
	return Decision{Verb: Forward, N: r.total}
}

func (s *Session) refuseAddPartitions(version int16, body []byte, refuse protocol.RefuseTopic) ([]byte, bool, error) {
	return protocol.RefuseAddPartitions(version, body, refuse, s.policy.StateTransaction)
}

// transactionalID passes a request about a transaction on when the transaction is not the mirrors' owner's.
func (s *Session) transactionalID(r *request) Decision {
	id, need, err := protocol.PeekTransactionalID(r.Key, r.Version, r.body())
	if err == nil && sizeBytes+r.BodyOffset+need > r.total {
		err = fmt.Errorf("%w: the transactional id ends beyond the request", protocol.ErrMalformed)
	}
	switch {
	case err != nil:
		return r.closing(CauseMalformed, err)
	case need > 0:
		return Decision{Verb: NeedMore, N: sizeBytes + r.BodyOffset + need}
	case !s.policy.StateTransaction(id):
		return s.forward(r, relay)
	}
	if d, ok := r.whole(s.limits.AdminBytes); !ok {
		return d
	}
	body, err := protocol.RefuseTransaction(r.Key, r.Version, r.body())
	if err != nil {
		return r.closing(CauseMalformed, err)
	}
	s.metrics.refused(1)
	return s.answer(r, body)
}

// probeCorrelation is the correlation id of our own requests on a client's connection. Answers
// are told apart by their order; the id only makes a mix-up visible.
const probeCorrelation int32 = -0x6d707278

// probeFrame is an ApiVersions v0 request without client id: what every broker answers at
// once, to any client, in any state but the middle of authentication (where no produce can be).
var probeFrame = func() []byte {
	const headerBytes = 2 + 2 + 4 + 2
	frame := binary.BigEndian.AppendUint32(nil, headerBytes)
	frame = binary.BigEndian.AppendUint16(frame, uint16(protocol.KeyApiVersions))
	frame = binary.BigEndian.AppendUint16(frame, 0)
	correlation := probeCorrelation
	frame = binary.BigEndian.AppendUint32(frame, uint32(correlation))
	return binary.BigEndian.AppendUint16(frame, 0xffff)
}()
