package protocol

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// randomResource names what a config request is about: often what concerns the proxy, some names under several types.
func randomResource(r *rand.Rand) (kmsg.ConfigResourceType, string) {
	kinds := []kmsg.ConfigResourceType{2, 2, 2, 4, 64}
	names := []string{"orders", "mirrored", "__mirror_state", "1"}
	return kinds[r.IntN(len(kinds))], names[r.IntN(len(names))]
}

// wantAlter is what one broker that knows of mirrors would answer for one resource.
func wantAlter(kind kmsg.ConfigResourceType, name string, configs []string, incremental bool) (int16, string) {
	switch {
	case kind == 64 && !incremental:
		return 42, "Unknown resource type 64"
	case kind == 2 && name == "__mirror_state":
		return 29, "__mirror_state belongs to kafka-mirror-proxy."
	case kind == 2 && slices.Contains(configs, "mirror.name"):
		return 42, "The 'mirror.name' configuration can only be modified through dedicated mirror management APIs."
	case kind == 2 && name == "mirrored" && !incremental:
		return 44, "AlterConfigs replaces all configs, of which some belong to mirror dr while topic mirrored is mirrored; use IncrementalAlterConfigs."
	case kind == 2 && name == "mirrored" && slices.Contains(configs, "retention.ms"):
		return 44, "Config retention.ms belongs to mirror dr while topic mirrored is mirrored."
	case kind == 64:
		return 0, "local"
	}
	return 0, "upstream"
}

func TestIncrementalAlterConfigsIsAnsweredAsByOneBroker(t *testing.T) {
	everyVersion(t, KeyIncrementalAlterConfigs, func(t *testing.T, version int16, r *rand.Rand) {
		m := randomize(r, version, kmsg.NewPtrIncrementalAlterConfigsRequest())
		for i := range m.Resources {
			res := &m.Resources[i]
			res.ResourceType, res.ResourceName = randomResource(r)
			for i := range res.Configs {
				switch r.IntN(8) {
				case 0:
					res.Configs[i].Name = "mirror.name"
				case 1, 2:
					res.Configs[i].Name = "retention.ms"
				}
			}
		}
		body := m.AppendTo(nil)
		m = reread(t, version, body, kmsg.NewPtrIncrementalAlterConfigsRequest())
		answering := func(who string, mirrors bool, throttle int32) func([]byte) []byte {
			return func(body []byte) []byte {
				request := reread(t, version, body, kmsg.NewPtrIncrementalAlterConfigsRequest())
				if request.ValidateOnly != m.ValidateOnly {
					t.Fatal("validate-only changed")
				}
				answer := kmsg.NewPtrIncrementalAlterConfigsResponse()
				answer.Version, answer.ThrottleMillis = version, throttle
				for _, res := range request.Resources {
					if (res.ResourceType == 64) != mirrors {
						t.Fatalf("%s is asked about type %d", who, res.ResourceType)
					}
					answer.Resources = append(answer.Resources, kmsg.IncrementalAlterConfigsResponseResource{ErrorMessage: &who, ResourceType: res.ResourceType, ResourceName: res.ResourceName})
				}
				slices.Reverse(answer.Resources) // brokers promise no order
				return answer.AppendTo(nil)
			}
		}
		got := reread(t, version, serve(t, KeyIncrementalAlterConfigs, version, body, answering("upstream", false, 2), answering("local", true, 1)), kmsg.NewPtrIncrementalAlterConfigsResponse())
		if len(got.Resources) != len(m.Resources) {
			t.Fatalf("%d rows for %d resources", len(got.Resources), len(m.Resources))
		}
		concerned := false
		for _, res := range m.Resources {
			_, message := wantAlter(res.ResourceType, res.ResourceName, incrementalNames(res), true)
			concerned = concerned || message != "upstream"
		}
		for i, row := range got.Resources {
			if !concerned { // relayed as it is
				continue
			}
			res := m.Resources[i]
			code, message := wantAlter(res.ResourceType, res.ResourceName, incrementalNames(res), true)
			if row.ResourceType != res.ResourceType || row.ResourceName != res.ResourceName || row.ErrorCode != code || *row.ErrorMessage != message {
				t.Fatalf("row %d: %+v %q, want %d %q", i, row, *row.ErrorMessage, code, message)
			}
		}
	})
}

func incrementalNames(res kmsg.IncrementalAlterConfigsRequestResource) (names []string) {
	for _, c := range res.Configs {
		names = append(names, c.Name)
	}
	return names
}

func TestAlterConfigsIsAnsweredAsByOneBroker(t *testing.T) {
	everyVersion(t, KeyAlterConfigs, func(t *testing.T, version int16, r *rand.Rand) {
		m := randomize(r, version, kmsg.NewPtrAlterConfigsRequest())
		concerned := false
		var codes []int16
		var messages []string
		for i := range m.Resources {
			res := &m.Resources[i]
			res.ResourceType, res.ResourceName = randomResource(r)
			for i := range res.Configs {
				switch r.IntN(8) {
				case 0:
					res.Configs[i].Name = "mirror.name"
				case 1, 2:
					res.Configs[i].Name = "retention.ms"
				}
			}
			var names []string
			for _, c := range res.Configs {
				names = append(names, c.Name)
			}
			code, message := wantAlter(res.ResourceType, res.ResourceName, names, false)
			codes, messages, concerned = append(codes, code), append(messages, message), concerned || code != 0
		}
		body := m.AppendTo(nil)
		broker := func(body []byte) []byte {
			answer := kmsg.NewPtrAlterConfigsResponse()
			answer.Version = version
			for _, res := range reread(t, version, body, kmsg.NewPtrAlterConfigsRequest()).Resources {
				answer.Resources = append(answer.Resources, kmsg.AlterConfigsResponseResource{ErrorMessage: text("upstream"), ResourceType: res.ResourceType, ResourceName: res.ResourceName})
			}
			slices.Reverse(answer.Resources)
			return answer.AppendTo(nil)
		}
		got := reread(t, version, serve(t, KeyAlterConfigs, version, body, broker, noLocal(t)), kmsg.NewPtrAlterConfigsResponse())
		if len(got.Resources) != len(m.Resources) {
			t.Fatalf("%d rows for %d resources", len(got.Resources), len(m.Resources))
		}
		for i, row := range got.Resources {
			if res := m.Resources[i]; concerned && (row.ResourceType != res.ResourceType || row.ResourceName != res.ResourceName || row.ErrorCode != codes[i] || *row.ErrorMessage != messages[i]) {
				t.Fatalf("row %d: %+v %q, want %d %q", i, row, *row.ErrorMessage, codes[i], messages[i])
			}
		}
	})
}

func TestDescribeConfigsShowsMirrors(t *testing.T) {
	shown := 0
	everyVersion(t, KeyDescribeConfigs, func(t *testing.T, version int16, r *rand.Rand) {
		m := randomize(r, version, kmsg.NewPtrDescribeConfigsRequest())
		var used []resource
		for i := range m.Resources {
			res := &m.Resources[i]
			for {
				res.ResourceType, res.ResourceName = randomResource(r)
				if about := (resource{res.ResourceType, res.ResourceName}); !slices.Contains(used, about) {
					used = append(used, about)
					break
				}
			}
			switch r.IntN(4) {
			case 0:
				res.ConfigNames = nil
			case 1:
				res.ConfigNames = append(res.ConfigNames, "mirror.name")
			}
		}
		body := m.AppendTo(nil)
		m = reread(t, version, body, kmsg.NewPtrDescribeConfigsRequest())
		failing := r.IntN(5) == 0
		answering := func(who string, mirrors bool) func([]byte) []byte {
			return func(body []byte) []byte {
				request := reread(t, version, body, kmsg.NewPtrDescribeConfigsRequest())
				if request.IncludeSynonyms != m.IncludeSynonyms || request.IncludeDocumentation != m.IncludeDocumentation {
					t.Fatal("what is asked for changed")
				}
				answer := kmsg.NewPtrDescribeConfigsResponse()
				answer.Version = version
				for _, res := range request.Resources {
					if (res.ResourceType == 64) != mirrors {
						t.Fatalf("%s is asked about type %d", who, res.ResourceType)
					}
					row := kmsg.DescribeConfigsResponseResource{ResourceType: res.ResourceType, ResourceName: res.ResourceName}
					if row.Configs = []kmsg.DescribeConfigsResponseResourceConfig{{Name: "by " + who}}; failing {
						row.Configs, row.ErrorCode = nil, 29
					}
					answer.Resources = append(answer.Resources, row)
				}
				return answer.AppendTo(nil)
			}
		}
		got := reread(t, version, serve(t, KeyDescribeConfigs, version, body, answering("upstream", false), answering("local", true)), kmsg.NewPtrDescribeConfigsResponse())
		if len(got.Resources) != len(m.Resources) {
			t.Fatalf("%d rows for %d resources", len(got.Resources), len(m.Resources))
		}
		for i, row := range got.Resources {
			res := m.Resources[i]
			if row.ResourceType != res.ResourceType || row.ResourceName != res.ResourceName {
				t.Fatalf("row %d is about %d %s, want %d %s", i, row.ResourceType, row.ResourceName, res.ResourceType, res.ResourceName)
			}
			if failing {
				if len(row.Configs) != 0 || row.ErrorCode != 29 {
					t.Fatalf("%+v", row)
				}
				continue
			}
			who := "by upstream"
			if res.ResourceType == 64 {
				who = "by local"
			}
			wanted := res.ResourceType == 2 && res.ResourceName == "mirrored" && (res.ConfigNames == nil || slices.Contains(res.ConfigNames, "mirror.name"))
			if row.Configs[0].Name != who || wanted != (len(row.Configs) == 2) || !wanted && len(row.Configs) != 1 {
				t.Fatalf("%+v", row)
			}
			if !wanted {
				continue
			}
			shown++
			entry := row.Configs[1]
			if entry.Name != "mirror.name" || *entry.Value != "dr.paused" || !entry.ReadOnly || entry.IsSensitive || entry.IsDefault {
				t.Fatalf("%+v", entry)
			}
			if version >= 1 && entry.Source != 1 || version >= 3 && entry.ConfigType != 2 {
				t.Fatalf("source %d, type %d", entry.Source, entry.ConfigType)
			}
			if withSynonyms := version >= 1 && m.IncludeSynonyms; withSynonyms != (len(entry.ConfigSynonyms) == 1) {
				t.Fatalf("%d synonyms, asked for: %v", len(entry.ConfigSynonyms), withSynonyms)
			}
		}
	})
	if shown < 20 {
		t.Errorf("mirror.name shown only %d times", shown)
	}
}

// An answer that cannot be read is an error, not an answer with a hole.
func TestAdminMergeRefusesBrokenAnswers(t *testing.T) {
	m := kmsg.NewPtrIncrementalAlterConfigsRequest()
	m.Version = 1
	m.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: 64, ResourceName: "dr"}, {ResourceType: 2, ResourceName: "orders"}}
	s, err := SplitAdmin(KeyIncrementalAlterConfigs, 1, m.AppendTo(nil), policy{})
	if err != nil || s.Upstream == nil || s.Local == nil {
		t.Fatalf("%+v, %v", s, err)
	}
	good := kmsg.NewPtrIncrementalAlterConfigsResponse()
	good.Version = 1
	for _, parts := range [][2][]byte{{{0}, good.AppendTo(nil)}, {good.AppendTo(nil), {0}}} {
		if _, err := s.Merge(parts[0], parts[1]); !errors.Is(err, ErrMalformed) {
			t.Errorf("%v", err)
		}
	}
}
