package protocol

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// upstreamHost begins every host in a random message, so that a leak shows as these bytes.
const upstreamHost = "upstream-host"

// ourAddress is the AddressOf of the tests.
func ourAddress(nodeID int32, host string, port int32) (string, int32) {
	return fmt.Sprintf("proxy-%d", nodeID), 9093 + nodeID
}

// seeds runs f for a number of fixed random sources.
func seeds(t *testing.T, n int, f func(r *rand.Rand)) {
	t.Helper()
	for seed := range n {
		f(rand.New(rand.NewPCG(uint64(seed), 1279)))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// everyVersion runs f as a subtest for each version of a key that is decoded, with a number of random sources each.
func everyVersion(t *testing.T, key int16, f func(t *testing.T, version int16, r *rand.Rand)) {
	minVersion, maxVersion, known := Versions(key)
	if !known {
		t.Fatalf("key %d is not decoded", key)
	}
	for version := minVersion; version <= maxVersion; version++ {
		t.Run(fmt.Sprintf("%s v%d", KeyName(key), version), func(t *testing.T) {
			seeds(t, 60, func(r *rand.Rand) { f(t, version, r) })
		})
	}
}

// randomize fills every field of a kmsg message, unknown tagged fields included.
func randomize[M message](r *rand.Rand, version int16, m M) M {
	fill(r, reflect.ValueOf(m).Elem())
	m.SetVersion(version)
	return m
}

var tagsType = reflect.TypeFor[kmsg.Tags]()

func fill(r *rand.Rand, v reflect.Value) {
	if v.Type() == tagsType {
		tags := v.Addr().Interface().(*kmsg.Tags)
		for range r.IntN(3) {
			tags.Set(20+uint32(r.IntN(300)), []byte(randomText(r, "tag")))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name == "Host" {
				v.Field(i).SetString(randomText(r, upstreamHost))
				continue
			}
			fill(r, v.Field(i))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(randomText(r, "bytes")))
			return
		}
		s := reflect.MakeSlice(v.Type(), r.IntN(4), 4)
		for i := range s.Len() {
			fill(r, s.Index(i))
		}
		v.Set(s)
	case reflect.Array:
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case reflect.Pointer:
		if r.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(r, v.Elem())
		}
	case reflect.String:
		v.SetString(randomText(r, "s"))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(r.IntN(100)) - 1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(uint64(r.IntN(200)))
	default:
		panic("no random " + v.Type().String())
	}
}

func randomText(r *rand.Rand, prefix string) string {
	b := []byte(prefix)
	for range r.IntN(12) {
		b = append(b, byte('a'+r.IntN(26)))
	}
	if r.IntN(30) == 0 { // long enough for a length varint of two bytes
		b = append(b, make([]byte, 200)...)
	}
	return string(b)
}

// reread decodes a body with kmsg.
func reread[M message](t *testing.T, version int16, body []byte, m M) M {
	t.Helper()
	m.SetVersion(version)
	if err := m.ReadFrom(body); err != nil {
		t.Fatalf("%s v%d: %v", KeyName(m.Key()), version, err)
	}
	return m
}

// hasHost tells whether a message has a field named Host somewhere.
func hasHost(m any) bool { return typeHasHost(reflect.TypeOf(m)) }

func typeHasHost(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return typeHasHost(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).Name == "Host" || typeHasHost(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}
