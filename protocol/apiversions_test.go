package protocol

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type versionRange struct{ min, max int16 }

func rowsOf(r *kmsg.ApiVersionsResponse) map[int16]versionRange {
	rows := map[int16]versionRange{}
	for _, row := range r.ApiKeys {
		rows[row.ApiKey] = versionRange{row.MinVersion, row.MaxVersion}
	}
	return rows
}

// broker is the ApiVersions answer of a broker that offers every key up to 96 from v0 to its own highest version.
func broker(version int16, highest func(key int16) int16) *kmsg.ApiVersionsResponse {
	m := kmsg.NewPtrApiVersionsResponse()
	m.Version = version
	for key := int16(0); key <= 96; key++ {
		if top := highest(key); top >= 0 {
			m.ApiKeys = append(m.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MaxVersion: top})
		}
	}
	return m
}

func editedVersions(t *testing.T, m *kmsg.ApiVersionsResponse, mirrors bool) (map[int16]versionRange, UpstreamVersions) {
	t.Helper()
	edited, upstream, err := EditApiVersions(m.Version, m.AppendTo(nil), mirrors)
	if err != nil {
		t.Fatal(err)
	}
	r := reread(t, m.Version, edited, kmsg.NewPtrApiVersionsResponse())
	rows := rowsOf(r)
	if len(rows) != len(r.ApiKeys) {
		t.Errorf("a key has two rows")
	}
	return rows, upstream
}

func TestApiVersionsOfANewerBrokerAreCapped(t *testing.T) {
	for version := int16(0); version <= 5; version++ {
		for _, mirrors := range []bool{false, true} {
			rows, upstream := editedVersions(t, broker(version, func(int16) int16 { return 99 }), mirrors)
			if upstream != (UpstreamVersions{FindCoordinator: 99, CreateTopics: 99}) {
				t.Errorf("upstream %+v", upstream)
			}
			for key := int16(0); key <= 110; key++ {
				want, offered := versionRange{0, 99}, key <= 96
				switch minVersion, maxVersion, known := Versions(key); {
				case known && key == KeyProduce:
					want = versionRange{0, maxVersion} // as the broker says, or librdkafka does not compress
				case known:
					want = versionRange{minVersion, maxVersion}
				case mirrors && key >= 94 && key <= 104:
					want, offered = versionRange{}, true
				}
				if mirrors && key == KeyFindCoordinator {
					want.max = 7
				}
				if mirrors && key == KeyCreateTopics {
					want.max = 8
				}
				if got, ok := rows[key]; ok != offered || ok && got != want {
					t.Errorf("v%d, mirrors %v: key %d is %+v (%v), want %+v (%v)", version, mirrors, key, got, ok, want, offered)
				}
			}
		}
	}
}

func TestApiVersionsOfAnOlderBrokerAreNotRaised(t *testing.T) {
	rows, upstream := editedVersions(t, broker(3, func(key int16) int16 {
		switch key {
		case KeyProduce:
			return 2 // older than what we decode: nothing is left to offer
		case KeyFetch:
			return 11
		case KeyFindCoordinator:
			return 3
		case KeyCreateTopics:
			return 6
		case KeySaslHandshake:
			return 0
		case KeyMetadata, KeyDescribeCluster:
			return -1
		}
		return 1
	}), true)
	for key, want := range map[int16]versionRange{KeyFetch: {4, 11}, KeyFindCoordinator: {0, 3}, KeyCreateTopics: {0, 6}, KeyDeleteTopics: {0, 1}, 2: {0, 1}} {
		if rows[key] != want {
			t.Errorf("%s: %+v, want %+v", KeyName(key), rows[key], want)
		}
	}
	for _, key := range []int16{KeyProduce, KeySaslHandshake, KeyMetadata, KeyDescribeCluster} {
		if row, ok := rows[key]; ok {
			t.Errorf("%s offered: %+v", KeyName(key), row)
		}
	}
	if upstream != (UpstreamVersions{FindCoordinator: 3, CreateTopics: 6}) {
		t.Errorf("upstream %+v", upstream)
	}
	rows, upstream = editedVersions(t, broker(3, func(key int16) int16 {
		switch key {
		case KeyFindCoordinator:
			return 4
		case KeyCreateTopics:
			return 7
		}
		return -1
	}), true)
	if rows[KeyFindCoordinator] != (versionRange{0, 7}) || rows[KeyCreateTopics] != (versionRange{0, 8}) || upstream != (UpstreamVersions{4, 7}) {
		t.Errorf("%+v, %+v", rows, upstream)
	}
	if len(rows) != 2+11 {
		t.Errorf("%d rows", len(rows))
	}
}

// Everything but the rows stays: features, their epoch, the throttle time, tagged fields that nobody knows.
func TestApiVersionsKeepsTheRest(t *testing.T) {
	everyVersion(t, KeyApiVersions, func(t *testing.T, version int16, r *rand.Rand) {
		m := randomize(r, version, kmsg.NewPtrApiVersionsResponse())
		m.ErrorCode = CodeNone
		for i := range m.ApiKeys {
			m.ApiKeys[i].ApiKey = 60000>>1 + int16(i) // opaque
		}
		body := m.AppendTo(nil)
		edited, upstream, err := EditApiVersions(version, body, false)
		if err != nil || !bytes.Equal(edited, body) {
			t.Fatalf("%v\n% x\n% x", err, edited, body)
		}
		if upstream != (UpstreamVersions{-1, -1}) {
			t.Fatalf("upstream %+v", upstream)
		}
		with, _, err := EditApiVersions(version, body, true)
		if err != nil {
			t.Fatal(err)
		}
		got := reread(t, version, with, kmsg.NewPtrApiVersionsResponse())
		if len(got.ApiKeys) != len(m.ApiKeys)+11 {
			t.Fatalf("%d rows", len(got.ApiKeys))
		}
		got.ApiKeys = got.ApiKeys[:len(m.ApiKeys)]
		if !bytes.Equal(got.AppendTo(nil), body) {
			t.Fatal("the rest of the answer changed")
		}
	})
}

// KIP-511: a broker that does not know the version answers error 35 in the encoding of v0, whatever was asked.
func TestApiVersionsDowngradeKeepsItsEncoding(t *testing.T) {
	m := kmsg.NewPtrApiVersionsResponse()
	m.ErrorCode = CodeUnsupportedVersion
	m.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: KeyApiVersions, MaxVersion: 3}}
	old := m.AppendTo(nil)
	for version := int16(0); version <= 5; version++ {
		edited, _, err := EditApiVersions(version, old, true)
		if err != nil || !bytes.Equal(edited, old) {
			t.Errorf("v%d: % x, %v", version, edited, err)
		}
	}
	m.ApiKeys[0].MaxVersion = 9
	edited, _, err := EditApiVersions(4, m.AppendTo(nil), true)
	if err != nil {
		t.Fatal(err)
	}
	if rows := rowsOf(reread(t, 0, edited, kmsg.NewPtrApiVersionsResponse())); len(rows) != 1 || rows[KeyApiVersions] != (versionRange{0, 5}) {
		t.Errorf("%+v", rows)
	}
}

func TestApiVersionsRefusal(t *testing.T) {
	m := reread(t, 0, AppendApiVersionsRefusal(nil), kmsg.NewPtrApiVersionsResponse())
	if rows := rowsOf(m); m.ErrorCode != 35 || len(rows) != 1 || rows[KeyApiVersions] != (versionRange{0, 5}) {
		t.Errorf("%+v", m)
	}
	for _, version := range []int16{-1, 6, 99} {
		if _, _, err := EditApiVersions(version, make([]byte, 50), true); !errors.Is(err, ErrUnsupportedVersion) {
			t.Errorf("v%d: %v", version, err)
		}
	}
	if _, _, err := EditApiVersions(3, []byte{0}, true); !errors.Is(err, ErrMalformed) {
		t.Errorf("one byte: %v", err)
	}
}
