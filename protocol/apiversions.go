package protocol

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// UpstreamVersions are the highest versions that the broker itself offered, -1 when it did not offer the key, for the keys
// where clients may be told more than the broker knows.
type UpstreamVersions struct {
	FindCoordinator int16
	CreateTopics    int16
}

// createTopicsUpstream is the version in whose form a CreateTopics v8 without mirrors goes upstream.
const createTopicsUpstream = maxCreateTopics - 1

// EditApiVersions edits a broker's ApiVersions answer: APIs that are looked into are capped to the versions that this
// package decodes (never raised), SaslHandshake begins at v1, Fetch at v4; with mirrors the mirror APIs of the
// seed dialect replace whatever the broker has at their keys, FindCoordinator goes up to 7 and CreateTopics up to 8 where
// the broker can take the requests in their older form. Other keys and the features stay. An answer with error 35 comes
// in the encoding of v0 whatever was asked; it keeps that encoding, only its rows are capped.
func EditApiVersions(version int16, body []byte, mirrors bool) (edited []byte, upstream UpstreamVersions, err error) {
	upstream = UpstreamVersions{FindCoordinator: -1, CreateTopics: -1}
	if err := decodable(KeyApiVersions, version); err != nil {
		return nil, upstream, err
	}
	c := cursor{b: body}
	downgrade := c.int16() == CodeUnsupportedVersion
	if downgrade {
		version, mirrors = 0, false
	}
	r := kmsg.NewPtrApiVersionsResponse()
	if err := decode(version, body, r); err != nil {
		return nil, upstream, err
	}
	rows := r.ApiKeys[:0]
	for _, row := range r.ApiKeys {
		switch row.ApiKey {
		case KeyFindCoordinator:
			upstream.FindCoordinator = row.MaxVersion
		case KeyCreateTopics:
			upstream.CreateTopics = row.MaxVersion
		}
		if mirrors && isMirrorKey(row.ApiKey) {
			continue
		}
		if row, offered := offer(row, mirrors); offered {
			rows = append(rows, row)
		}
	}
	if mirrors && r.ErrorCode == CodeNone {
		rows = slices.Grow(rows, int(KeyMirrorLast-KeyMirrorFirst)+1)
		for key := KeyMirrorFirst; key <= KeyMirrorLast; key++ {
			row := kmsg.NewApiVersionsResponseApiKey()
			row.ApiKey = key
			rows = append(rows, row)
		}
	}
	r.ApiKeys = rows
	return encode(r, len(body)), upstream, nil
}

// offer narrows the versions of one key to those that can be edited; false when none is left.
func offer(row kmsg.ApiVersionsResponseApiKey, mirrors bool) (kmsg.ApiVersionsResponseApiKey, bool) {
	minVersion, maxVersion, known := Versions(row.ApiKey)
	if !known {
		return row, true
	}
	brokerMin, brokerMax := row.MinVersion, row.MaxVersion
	row.MinVersion, row.MaxVersion = max(row.MinVersion, minVersion), min(row.MaxVersion, maxVersion)
	if row.MinVersion > row.MaxVersion {
		return row, false
	}
	if row.ApiKey == KeyProduce {
		// Brokers offer v0 although they take none below 3: older librdkafka decides by it whether it may compress (KAFKA-18659).
		row.MinVersion = brokerMin
	}
	if mirrors && row.ApiKey == KeyFindCoordinator && brokerMax >= findCoordinatorBatched {
		row.MaxVersion = maxFindCoordinator
	}
	if mirrors && row.ApiKey == KeyCreateTopics && brokerMax >= createTopicsUpstream {
		row.MaxVersion = maxCreateTopics
	}
	return row, true
}

// AppendApiVersionsRefusal appends the body that answers an ApiVersions request of a version above ours, as a broker does
// (KIP-511): error 35 in the encoding of v0, with the versions of ApiVersions that can be used. Such a request must not go
// upstream: a newer broker would answer it in an encoding that cannot be edited.
func AppendApiVersionsRefusal(dst []byte) []byte {
	minVersion, maxVersion, _ := Versions(KeyApiVersions)
	dst = kbin.AppendInt16(dst, CodeUnsupportedVersion)
	dst = kbin.AppendArrayLen(dst, 1)
	dst = kbin.AppendInt16(dst, KeyApiVersions)
	dst = kbin.AppendInt16(dst, minVersion)
	return kbin.AppendInt16(dst, maxVersion)
}
