package protocol

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// frameOf is a request frame as franz-go writes it, without the size.
func frameOf(request kmsg.Request, clientID *string) []byte {
	formatter := kmsg.NewRequestFormatter()
	if clientID != nil {
		formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID(*clientID))
	}
	return formatter.AppendRequest(nil, request, 77)[4:]
}

func TestRequestHeaderAgreesWithKmsg(t *testing.T) {
	for key := range int16(100) {
		request := kmsg.RequestForKey(key)
		_, _, known := Versions(key)
		if request == nil || !known {
			continue
		}
		for version := int16(0); version <= request.MaxVersion(); version++ {
			for _, clientID := range []*string{nil, new(string), text("a client"), text(string(make([]byte, 300)))} {
				request.SetVersion(version)
				frame := frameOf(request, clientID)
				body := request.AppendTo(nil)
				for shown := 0; ; {
					h, need, err := PeekRequestHeader(frame[:shown])
					if err != nil {
						t.Fatal(err)
					}
					if need > 0 {
						if need <= shown || need > len(frame)-len(body) {
							t.Fatalf("%s v%d: shown %d, needs %d of a header of %d", KeyName(key), version, shown, need, len(frame)-len(body))
						}
						shown = need
						continue
					}
					want := RequestHeader{Key: key, Version: version, CorrelationID: 77, BodyOffset: len(frame) - len(body), Flexible: request.IsFlexible()}
					if h != want {
						t.Fatalf("%+v, want %+v", h, want)
					}
					break
				}
			}
		}
	}
}

func TestRequestHeaderOfOpaqueKeys(t *testing.T) {
	for _, key := range []int16{-1, 2, 8, 93, 105, 32767} {
		h, need, err := PeekRequestHeader([]byte{byte(key >> 8), byte(key), 0, 9, 0, 0, 0, 7, 0xff, 0xfe})
		if err != nil || need != 0 || h != (RequestHeader{Key: key, Version: 9, CorrelationID: 7}) {
			t.Errorf("key %d: %+v, %d, %v", key, h, need, err)
		}
	}
}

func TestRequestHeaderWithTags(t *testing.T) {
	frame := []byte{0, 94, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 2, 0, 1, 'x', 0xff, 0x7f, 2, 'y', 'z', 99}
	h, need, err := PeekRequestHeader(frame)
	if err != nil || need != 0 || h.BodyOffset != len(frame)-1 || !h.Flexible {
		t.Errorf("%+v, %d, %v", h, need, err)
	}
}

func TestHostileRequestHeaders(t *testing.T) {
	for name, frame := range map[string][]byte{
		"client id of length -2": {0, 3, 0, 12, 0, 0, 0, 1, 0xff, 0xfe},
		"tag count too long":     {0, 3, 0, 12, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0},
		"tag size above int":     {0, 3, 0, 12, 0, 0, 0, 1, 0xff, 0xff, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f},
		"negative version":       {0, 3, 0xff, 0xff, 0, 0, 0, 1, 0xff, 0xff},
	} {
		if _, need, err := PeekRequestHeader(frame); err == nil || need != 0 {
			t.Errorf("%s: need %d, error %v", name, need, err)
		} else if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnsupportedVersion) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A tag that claims 2^31-1 bytes makes the caller ask for that many, which it compares with the frame's size.
	_, need, err := PeekRequestHeader([]byte{0, 3, 0, 12, 0, 0, 0, 1, 0xff, 0xff, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x07})
	if err != nil || need < 1<<31-1 {
		t.Errorf("need %d, %v", need, err)
	}
}

// appendRequestHeader appends the header of a request (no size), with the client id given.
func appendRequestHeader(dst []byte, key, version int16, correlationID int32, clientID string) []byte {
	dst = kbin.AppendInt16(dst, key)
	dst = kbin.AppendInt16(dst, version)
	dst = kbin.AppendInt32(dst, correlationID)
	dst = kbin.AppendString(dst, clientID)
	if Flexible(key, version) {
		dst = append(dst, 0)
	}
	return dst
}

func TestHeadersWritten(t *testing.T) {
	seeds(t, 20, func(r *rand.Rand) {
		for _, key := range []int16{KeyApiVersions, KeyMetadata, KeyFindCoordinator, KeyProduce, 94} {
			for version := range int16(5) {
				frame := append(appendRequestHeader(nil, key, version, 5, randomText(r, "c")), 1, 2, 3)
				h, need, err := PeekRequestHeader(frame)
				if err != nil || need != 0 || h.Key != key || h.Version != version || h.CorrelationID != 5 || h.BodyOffset != len(frame)-3 {
					t.Errorf("%+v, %d, %v", h, need, err)
				}
				SetRequestVersion(frame, 3)
				if h, _, _ := PeekRequestHeader(frame); h.Version != 3 || h.Key != key {
					t.Errorf("version set to 3: %+v", h)
				}
				response := append(AppendResponseHeader(nil, key, version, 5), 1, 2, 3)
				at, need, err := PeekResponseBody(key, version, response)
				if err != nil || need != 0 || at != len(response)-3 {
					t.Errorf("response body at %d, %d, %v", at, need, err)
				}
			}
		}
	})
	if got := AppendResponseHeader(nil, KeyApiVersions, 4, 1); !bytes.Equal(got, []byte{0, 0, 0, 1}) {
		t.Errorf("ApiVersions v4 answer header % x", got)
	}
	if got := AppendResponseHeader(nil, KeyMetadata, 9, 1); !bytes.Equal(got, []byte{0, 0, 0, 1, 0}) {
		t.Errorf("Metadata v9 answer header % x", got)
	}
	if at, need, err := PeekResponseBody(KeyMetadata, 9, []byte{0, 0, 0, 1, 1, 0, 2, 'a', 'b'}); at != 9 || need != 0 || err != nil {
		t.Errorf("tagged response header: %d, %d, %v", at, need, err)
	}
	if _, need, err := PeekResponseBody(KeyMetadata, 9, []byte{0, 0, 0, 1}); need != 5 || err != nil {
		t.Errorf("response header cut off: %d, %v", need, err)
	}
}

func TestPeekRequestHeaderDoesNotAllocate(t *testing.T) {
	request := kmsg.NewPtrMetadataRequest()
	request.Version = 12
	frame := frameOf(request, text("client"))
	if n := testing.AllocsPerRun(100, func() { PeekRequestHeader(frame) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
