package mirrormsg_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

func TestSeedDialect(t *testing.T) {
	seed := &mirrormsg.Seed
	if len(seed.Keys) != 11 {
		t.Errorf("%d keys", len(seed.Keys))
	}
	for key := int16(94); key <= 104; key++ {
		api, ok := seed.API(key)
		if !ok {
			t.Fatalf("key %d is not served", key)
		}
		if back, ok := seed.Key(api); !ok || back != key {
			t.Errorf("%s has key %d, want %d", api, back, key)
		}
		req := mirrormsg.NewRequest(api)
		if req.API() != api || req.NewResponse().API() != api {
			t.Errorf("%s: request says %s, response %s", api, req.API(), req.NewResponse().API())
		}
	}
	for _, key := range []int16{-1, 0, 93, 105} {
		if api, ok := seed.API(key); ok {
			t.Errorf("key %d is %s", key, api)
		}
	}
	if key, ok := seed.Key(0); ok {
		t.Errorf("no API has key %d", key)
	}
	if mirrormsg.NewRequest(0) != nil {
		t.Error("a request of no API")
	}
	// wire.md section 3.
	for code, name := range map[mirrormsg.ErrorCode]string{
		134: "READ_ONLY_TOPIC", 135: "INVALID_MIRROR_NAME", 136: "UNKNOWN_MIRROR", 137: "TOPIC_ALREADY_IN_MIRROR",
		138: "TOPIC_NOT_IN_MIRROR", 139: "MIRROR_TOPIC_ALREADY_PAUSED", 140: "MIRROR_TOPIC_NOT_PAUSED",
		141: "MIRROR_TOPIC_BEING_REMOVED",
	} {
		row, ok := seed.Error(code)
		if !ok || row.Name != name || row.Message == "" || code.String() != name || code.Message() != row.Message {
			t.Errorf("code %d: %+v", code, row)
		}
	}
	if len(seed.Errors) != 8 {
		t.Errorf("%d errors", len(seed.Errors))
	}
}

func TestNoneDialectServesNothing(t *testing.T) {
	none, ok := mirrormsg.DialectByName("none")
	if !ok {
		t.Fatal("no dialect none")
	}
	for key := range int16(200) {
		if api, ok := none.API(key); ok {
			t.Errorf("key %d is %s", key, api)
		}
	}
	if _, err := mirrormsg.NewCall(none, &mirrormsg.ListMirrorsRequest{}); err == nil {
		t.Error("a call of an API the dialect does not have")
	}
	if seed, ok := mirrormsg.DialectByName("seed"); !ok || seed != &mirrormsg.Seed {
		t.Error("no dialect seed")
	}
	if d, ok := mirrormsg.DialectByName("head"); ok {
		t.Errorf("dialect %s", d.Name)
	}
}

// The names given to Kafka's own codes are Kafka's.
func TestStockErrorNames(t *testing.T) {
	named := 0
	for code := mirrormsg.ErrorCode(-1); code < 134; code++ {
		name := code.String()
		if name == mirrormsg.NoError.String() || name[0] == '-' || '0' <= name[0] && name[0] <= '9' {
			continue
		}
		named++
		if known := kerr.TypedErrorForCode(int16(code)); known == nil || known.Message != name {
			t.Errorf("code %d is %s, Kafka says %v", code, name, known)
		}
	}
	if named != 19 {
		t.Errorf("%d names checked", named)
	}
	if got := mirrormsg.ErrorCode(999).String(); got != "999" {
		t.Errorf("code 999 is %s", got)
	}
}

// Handlers rely on these defaults: the reference's success answer of CreateMirror has an empty message, not a null one.
func TestCreateMirrorSuccessMessage(t *testing.T) {
	m := mirrormsg.NewRequest(mirrormsg.CreateMirror).NewResponse().TopLevel().ErrorMessage
	if m == nil || *m != "" {
		t.Errorf("message is %v", m)
	}
	if m := mirrormsg.NewRequest(mirrormsg.ListMirrors).NewResponse().TopLevel().ErrorMessage; m != nil {
		t.Errorf("message is %q", *m)
	}
}
