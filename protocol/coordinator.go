package protocol

// CoordinatorTypeMirror is the key type of the mirror coordinator (KIP-1279).
const CoordinatorTypeMirror int8 = 3

// PeekFindCoordinator returns the key type of a FindCoordinator request (v0: group, 0).
func PeekFindCoordinator(version int16, body []byte) (keyType int8, err error) {
	return 0, ErrMalformed
}

// DowngradeFindCoordinator returns the version at which a request goes upstream when the client sent version and the
// broker knows up to upstreamMax. Versions 4 to 7 have the same bytes, so only the header's version changes
// (SetRequestVersion) and the answer is the answer at the client's version too.
func DowngradeFindCoordinator(version, upstreamMax int16) int16 { return version }

// EditFindCoordinator rewrites the coordinators' addresses, in the single (v0-v3) and in the batched form (v4+).
func EditFindCoordinator(version int16, body []byte, a AddressOf) ([]byte, error) {
	return nil, ErrMalformed
}
