package protocol

import "github.com/twmb/franz-go/pkg/kmsg"

// CoordinatorTypeMirror is the key type of the mirror coordinator (KIP-1279).
const CoordinatorTypeMirror int8 = 3

// The batched form of FindCoordinator begins here (KIP-699); its bytes are the same up to v7.
const findCoordinatorBatched int16 = 4

// PeekFindCoordinator returns the key type of a FindCoordinator request (v0: group, 0), v7 included.
func PeekFindCoordinator(version int16, body []byte) (keyType int8, err error) {
	if err := decodable(KeyFindCoordinator, knownFindCoordinator(version)); err != nil {
		return 0, err
	}
	c := cursor{b: body, flexible: Flexible(KeyFindCoordinator, version)}
	if version < findCoordinatorBatched {
		c.string()
	}
	if version >= 1 {
		keyType = c.int8()
	}
	if version >= findCoordinatorBatched {
		for keys := c.array(1); keys > 0 && c.ok(); keys-- {
			c.string()
		}
	}
	c.tags()
	return keyType, c.whole("FindCoordinator request")
}

// DowngradeFindCoordinator returns the version at which a request goes upstream when the client sent version and the
// broker knows up to upstreamMax. Versions 4 to 7 have the same bytes, so only the header's version changes
// (SetRequestVersion) and the answer is the answer at the client's version too.
func DowngradeFindCoordinator(version, upstreamMax int16) int16 {
	if version > upstreamMax && version > findCoordinatorBatched {
		return max(upstreamMax, findCoordinatorBatched)
	}
	return version
}

// EditFindCoordinator rewrites the coordinators' addresses, in the single (v0-v3) and in the batched form (v4-v7). A row
// without a coordinator (node id -1) stays.
func EditFindCoordinator(version int16, body []byte, a AddressOf) ([]byte, error) {
	r := kmsg.NewPtrFindCoordinatorResponse()
	if err := decode(knownFindCoordinator(version), body, r); err != nil {
		return nil, err
	}
	if version < findCoordinatorBatched {
		r.Host, r.Port = a.rewrite(r.NodeID, r.Host, r.Port)
	}
	for i := range r.Coordinators {
		row := &r.Coordinators[i]
		row.Host, row.Port = a.rewrite(row.NodeID, row.Host, row.Port)
	}
	return encode(r, len(body)), nil
}

func knownFindCoordinator(version int16) int16 {
	if version == maxFindCoordinator {
		return maxFindCoordinator - 1
	}
	return version
}
