package mirrormsg_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

func isKmsgTags(typ reflect.Type) bool { return typ == reflect.TypeFor[kmsg.Tags]() }

// goldenMessage builds the message a row states, and an empty one to decode into.
func goldenMessage(t *testing.T, row *goldenRow, v *val) (want, empty mirrormsg.Message) {
	t.Helper()
	switch {
	case row.key == int16(kmsg.FindCoordinator) && row.version == mirrormsg.FindCoordinatorVersion:
		return goldenFindCoordinator(row, v)
	case row.key == int16(kmsg.CreateTopics) && row.version == mirrormsg.CreateTopicsVersion:
		return goldenCreateTopics(row, v)
	}
	api, ok := mirrormsg.Seed.API(row.key)
	if !ok || row.version != mirrormsg.Version {
		t.Fatalf("no codec for key %d version %d", row.key, row.version)
	}
	if api.String() != row.api {
		t.Fatalf("key %d is %s, the row says %s", row.key, api, row.api)
	}
	if !row.isResponse() {
		return goldenRequest(t, api, v), mirrormsg.NewRequest(api)
	}
	return goldenResponse(t, api, v), mirrormsg.NewRequest(api).NewResponse()
}

func goldenRequest(t *testing.T, api mirrormsg.API, v *val) mirrormsg.Request {
	t.Helper()
	switch api {
	case mirrormsg.CreateMirror:
		return &mirrormsg.CreateMirrorRequest{
			MirrorName: v.str("mirrorName"),
			Config: list(v, "config", func(v *val) mirrormsg.MirrorConfig {
				return mirrormsg.MirrorConfig{Name: v.str("name"), Value: v.nullableStr("value")}
			}),
		}
	case mirrormsg.AddTopicsToMirror, mirrormsg.RemoveTopicsFromMirror, mirrormsg.PauseMirrorTopics, mirrormsg.ResumeMirrorTopics:
		return &mirrormsg.TopicsRequest{
			Op:         api,
			MirrorName: v.str("mirrorName"),
			Topics: list(v, "topics", func(v *val) mirrormsg.TopicRef {
				return mirrormsg.TopicRef{TopicID: v.uuid("topicId"), TopicName: v.str("topicName")}
			}),
		}
	case mirrormsg.LastMirroredOffsets:
		return &mirrormsg.LastMirroredOffsetsRequest{MirrorName: v.str("mirrorName"), Topics: goldenPartitions(v)}
	case mirrormsg.ReadMirrorStates:
		return &mirrormsg.ReadMirrorStatesRequest{MirrorName: v.str("mirrorName"), Topics: goldenPartitions(v)}
	case mirrormsg.ListMirrors:
		return &mirrormsg.ListMirrorsRequest{}
	case mirrormsg.DescribeMirrors:
		return &mirrormsg.DescribeMirrorsRequest{
			MirrorNames:                 v.strs("mirrorNames"),
			IncludeAuthorizedOperations: v.boolean("includeAuthorizedOperations"),
		}
	case mirrormsg.WriteMirrorStates:
		return &mirrormsg.WriteMirrorStatesRequest{
			MirrorName: v.str("mirrorName"),
			Topics: list(v, "topics", func(v *val) mirrormsg.WriteMirrorStatesTopic {
				return mirrormsg.WriteMirrorStatesTopic{
					Name: v.str("name"),
					Partitions: list(v, "partitions", func(v *val) mirrormsg.WriteMirrorState {
						return mirrormsg.WriteMirrorState{
							PartitionIndex:     v.i32("partitionIndex"),
							LastMirroredOffset: v.i64("lastMirroredOffset"),
							State:              v.i8("state"),
						}
					}),
				}
			}),
			RemovedTopics: v.strs("removedTopics"),
		}
	default:
		t.Fatalf("no request builder for %s", api)
		return nil
	}
}

func goldenPartitions(v *val) []mirrormsg.TopicPartitions {
	return list(v, "topics", func(v *val) mirrormsg.TopicPartitions {
		return mirrormsg.TopicPartitions{
			Name:       v.str("name"),
			Partitions: list(v, "partitions", func(v *val) int32 { return v.i32("partitionIndex") }),
		}
	})
}

func goldenStatus(v *val) mirrormsg.Status {
	return mirrormsg.Status{
		ThrottleTimeMs: v.i32("throttleTimeMs"), ErrorCode: v.code("errorCode"), ErrorMessage: v.nullableStr("errorMessage"),
	}
}

func goldenResponse(t *testing.T, api mirrormsg.API, v *val) mirrormsg.Response {
	t.Helper()
	status := goldenStatus(v)
	switch api {
	case mirrormsg.CreateMirror:
		return &mirrormsg.CreateMirrorResponse{Status: status}
	case mirrormsg.AddTopicsToMirror, mirrormsg.RemoveTopicsFromMirror, mirrormsg.PauseMirrorTopics, mirrormsg.ResumeMirrorTopics:
		return &mirrormsg.TopicsResponse{
			Op: api, Status: status, MirrorName: v.str("mirrorName"),
			Topics: list(v, "topics", func(v *val) mirrormsg.TopicResult {
				return mirrormsg.TopicResult{Name: v.str("name"), ErrorCode: v.code("errorCode")}
			}),
		}
	case mirrormsg.LastMirroredOffsets:
		return &mirrormsg.LastMirroredOffsetsResponse{Status: status, Topics: list(v, "topics",
			func(v *val) mirrormsg.LastMirroredOffsetsTopic {
				return mirrormsg.LastMirroredOffsetsTopic{Name: v.str("name"), Partitions: list(v, "partitions",
					func(v *val) mirrormsg.LastMirroredOffset {
						return mirrormsg.LastMirroredOffset{
							PartitionIndex:     v.i32("partitionIndex"),
							LastMirroredOffset: v.i64("lastMirroredOffset"),
							ErrorCode:          v.code("errorCode"),
						}
					})}
			})}
	case mirrormsg.ListMirrors:
		return &mirrormsg.ListMirrorsResponse{Status: status, Mirrors: list(v, "mirrors", func(v *val) mirrormsg.ListedMirror {
			return mirrormsg.ListedMirror{
				MirrorName: v.str("mirrorName"), SourceBootstrap: v.str("sourceBootstrap"),
				SourceClusterID: v.str("sourceClusterId"), TopicCount: v.i32("topicCount"),
			}
		})}
	case mirrormsg.DescribeMirrors:
		return &mirrormsg.DescribeMirrorsResponse{Status: status, Mirrors: list(v, "mirrors", goldenDescribedMirror)}
	case mirrormsg.ReadMirrorStates:
		return &mirrormsg.ReadMirrorStatesResponse{Status: status, Topics: list(v, "topics",
			func(v *val) mirrormsg.ReadMirrorStatesTopic {
				return mirrormsg.ReadMirrorStatesTopic{Name: v.str("name"), Partitions: list(v, "partitions",
					func(v *val) mirrormsg.ReadMirrorState {
						return mirrormsg.ReadMirrorState{
							PartitionIndex:     v.i32("partitionIndex"),
							LastMirroredOffset: v.i64("lastMirroredOffset"),
							State:              v.i8("state"),
							ErrorCode:          v.code("errorCode"),
						}
					})}
			})}
	case mirrormsg.WriteMirrorStates:
		return &mirrormsg.WriteMirrorStatesResponse{Status: status, Topics: list(v, "topics",
			func(v *val) mirrormsg.WriteMirrorStatesResultTopic {
				return mirrormsg.WriteMirrorStatesResultTopic{Name: v.str("name"), Partitions: list(v, "partitions",
					func(v *val) mirrormsg.WriteMirrorStateResult {
						return mirrormsg.WriteMirrorStateResult{
							PartitionIndex: v.i32("partitionIndex"), ErrorCode: v.code("errorCode"),
						}
					})}
			})}
	default:
		t.Fatalf("no response builder for %s", api)
		return nil
	}
}

func goldenDescribedMirror(v *val) mirrormsg.DescribedMirror {
	return mirrormsg.DescribedMirror{
		ErrorCode:  v.code("errorCode"),
		MirrorName: v.str("mirrorName"),
		Topics: list(v, "topics", func(v *val) mirrormsg.DescribedTopic {
			return mirrormsg.DescribedTopic{
				TopicName: v.str("topicName"),
				Partitions: list(v, "partitions", func(v *val) mirrormsg.DescribedPartition {
					return mirrormsg.DescribedPartition{
						PartitionIndex:    v.i32("partitionIndex"),
						SourceOffset:      v.i64("sourceOffset"),
						DestinationOffset: v.i64("destinationOffset"),
						Lag:               v.i64("lag"),
						State:             v.str("state"),
					}
				}),
			}
		}),
	}
}

func goldenFindCoordinator(row *goldenRow, v *val) (want, empty mirrormsg.Message) {
	if !row.isResponse() {
		return &mirrormsg.FindCoordinatorV7Request{KeyType: v.i8("keyType"), CoordinatorKeys: v.strs("coordinatorKeys")},
			&mirrormsg.FindCoordinatorV7Request{}
	}
	resp := new(mirrormsg.FindCoordinatorV7Request).ResponseKind().(*kmsg.FindCoordinatorResponse)
	resp.ThrottleMillis = v.i32("throttleTimeMs")
	resp.Coordinators = list(v, "coordinators", func(v *val) kmsg.FindCoordinatorResponseCoordinator {
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.NodeID, c.Host, c.Port = v.str("key"), v.i32("nodeId"), v.str("host"), v.i32("port")
		c.ErrorCode, c.ErrorMessage = v.i16("errorCode"), v.nullableStr("errorMessage")
		return c
	})
	return resp, new(mirrormsg.FindCoordinatorV7Request).ResponseKind()
}

func goldenCreateTopics(row *goldenRow, v *val) (want, empty mirrormsg.Message) {
	if row.isResponse() {
		return goldenCreateTopicsResponse(v), new(mirrormsg.CreateTopicsV8Request).ResponseKind()
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	m := &mirrormsg.CreateTopicsV8Request{Request: req}
	req.Topics = list(v, "topics", func(v *val) kmsg.CreateTopicsRequestTopic {
		m.MirrorInfo = append(m.MirrorInfo, object(v, "mirrorInfo", func(v *val) *mirrormsg.MirrorInfo {
			return &mirrormsg.MirrorInfo{TopicID: v.uuid("topicId")}
		}))
		return kmsg.CreateTopicsRequestTopic{
			Topic:             v.str("name"),
			NumPartitions:     v.i32("numPartitions"),
			ReplicationFactor: v.i16("replicationFactor"),
			ReplicaAssignment: list(v, "assignments", func(v *val) (a kmsg.CreateTopicsRequestTopicReplicaAssignment) {
				a.Partition = v.i32("partitionIndex")
				for _, id := range v.array("brokerIds") {
					a.Replicas = append(a.Replicas, int32(toInteger(v.t, id, 32)))
				}
				return a
			}),
			Configs: list(v, "configs", func(v *val) kmsg.CreateTopicsRequestTopicConfig {
				return kmsg.CreateTopicsRequestTopicConfig{Name: v.str("name"), Value: v.nullableStr("value")}
			}),
		}
	})
	req.TimeoutMillis, req.ValidateOnly = v.i32("timeoutMs"), v.boolean("validateOnly")
	return m, &mirrormsg.CreateTopicsV8Request{}
}

func goldenCreateTopicsResponse(v *val) kmsg.Response {
	resp := new(mirrormsg.CreateTopicsV8Request).ResponseKind().(*kmsg.CreateTopicsResponse)
	resp.ThrottleMillis = v.i32("throttleTimeMs")
	resp.Topics = list(v, "topics", func(v *val) kmsg.CreateTopicsResponseTopic {
		t := kmsg.NewCreateTopicsResponseTopic()
		t.Topic, t.TopicID = v.str("name"), v.uuid("topicId")
		t.ErrorCode, t.ErrorMessage = v.i16("errorCode"), v.nullableStr("errorMessage")
		t.NumPartitions, t.ReplicationFactor = v.i32("numPartitions"), v.i16("replicationFactor")
		if v.has("topicConfigErrorCode") {
			t.ConfigErrorCode = v.i16("topicConfigErrorCode")
		}
		if v.get("configs") == nil {
			return t
		}
		t.Configs = append([]kmsg.CreateTopicsResponseTopicConfig{}, list(v, "configs",
			func(v *val) kmsg.CreateTopicsResponseTopicConfig {
				c := kmsg.NewCreateTopicsResponseTopicConfig()
				c.Name, c.Value, c.ReadOnly = v.str("name"), v.nullableStr("value"), v.boolean("readOnly")
				c.Source, c.IsSensitive = v.i8("configSource"), v.boolean("isSensitive")
				return c
			})...)
		return t
	})
	return resp
}

// javaToJSON turns the toString of a Java message, such as Data(name='m', topics=[Topic(id=AA)]), into JSON: objects lose
// their class name; a bare word that is no JSON literal is a string.
func javaToJSON(t *testing.T, s string) []byte {
	t.Helper()
	p := javaText{rest: s}
	out, err := json.Marshal(p.value())
	if err != nil || p.rest != "" {
		t.Fatalf("cannot parse %q: %v, left %q", s, err, p.rest)
	}
	return out
}

type javaText struct{ rest string }

func (p *javaText) take(prefix string) (ok bool) {
	p.rest, ok = strings.CutPrefix(p.rest, prefix)
	return ok
}

func (p *javaText) value() any {
	if p.take("'") {
		end := strings.IndexByte(p.rest, '\'')
		s := p.rest[:end]
		p.rest = p.rest[end+1:]
		return s
	}
	if p.take("[") {
		items := []any{}
		for !p.take("]") {
			items = append(items, p.value())
			p.take(", ")
		}
		return items
	}
	word := p.rest
	if end := strings.IndexAny(word, "(,)]"); end >= 0 {
		word = word[:end]
	}
	p.rest = p.rest[len(word):]
	if !p.take("(") {
		if json.Valid([]byte(word)) {
			return json.RawMessage(word)
		}
		return word
	}
	fields := map[string]any{}
	for !p.take(")") {
		name, rest, ok := strings.Cut(p.rest, "=")
		if !ok {
			panic(fmt.Sprintf("no field in %q", p.rest))
		}
		p.rest = rest
		fields[name] = p.value()
		p.take(", ")
	}
	return fields
}
