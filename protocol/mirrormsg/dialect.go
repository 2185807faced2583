package mirrormsg

// API names a mirror API independently of the number a dialect gives it. The zero API is none.
type API int8

// The mirror APIs, with the reference's names; DeleteMirror is the later snapshot's DeleteClusterMirror.
const (
	CreateMirror API = iota + 1
	AddTopicsToMirror
	RemoveTopicsFromMirror
	LastMirroredOffsets
	ListMirrors
	DescribeMirrors
	ReadMirrorStates
	WriteMirrorStates
	PauseMirrorTopics
	ResumeMirrorTopics
	DeleteMirror
)

var apiNames = [...]string{
	CreateMirror:           "CreateMirror",
	AddTopicsToMirror:      "AddTopicsToMirror",
	RemoveTopicsFromMirror: "RemoveTopicsFromMirror",
	LastMirroredOffsets:    "LastMirroredOffsets",
	ListMirrors:            "ListMirrors",
	DescribeMirrors:        "DescribeMirrors",
	ReadMirrorStates:       "ReadMirrorStates",
	WriteMirrorStates:      "WriteMirrorStates",
	PauseMirrorTopics:      "PauseMirrorTopics",
	ResumeMirrorTopics:     "ResumeMirrorTopics",
	DeleteMirror:           "DeleteMirror",
}

// String returns the API's name.
func (a API) String() string {
	if a < CreateMirror || int(a) >= len(apiNames) {
		return "no mirror API"
	}
	return apiNames[a]
}

// Numbers of the protocol that are the same in every dialect known.
const (
	// Version is the only version of every mirror API.
	Version = 0
	// CoordinatorTypeMirror is the FindCoordinator key type of mirrors, legal from FindCoordinator v7 on.
	CoordinatorTypeMirror int8 = 3
	// ResourceTypeClusterMirror is the ACL resource type of mirrors.
	ResourceTypeClusterMirror int8 = 8
)

// KeyRow gives an API its number on the wire.
type KeyRow struct {
	Key int16
	API API
}

// ErrorRow gives an error code its name and default message.
type ErrorRow struct {
	Code    ErrorCode
	Name    string
	Message string
}

// Dialect is one numbering of the mirror APIs, chosen per listener. It is data; nobody changes one after it was made.
type Dialect struct {
	Name string
	// Keys lists the APIs served, one row each. A key that is not listed is not ours.
	Keys []KeyRow
	// Errors lists the codes that mean something else, or nothing, to a stock cluster.
	Errors []ErrorRow
	// ConfigResourceType is the type of mirrors in DescribeConfigs and IncrementalAlterConfigs, 0 for none.
	ConfigResourceType int8
}

// Seed is the reference of 2026-03-26 (wire.md, column R), with key 104 of the later snapshot to delete mirrors.
var Seed = Dialect{
	Name: "seed",
	Keys: []KeyRow{
		{94, CreateMirror},
		{95, AddTopicsToMirror},
		{96, RemoveTopicsFromMirror},
		{97, LastMirroredOffsets},
		{98, ListMirrors},
		{99, DescribeMirrors},
		{100, ReadMirrorStates},
		{101, WriteMirrorStates},
		{102, PauseMirrorTopics},
		{103, ResumeMirrorTopics},
		{104, DeleteMirror},
	},
	Errors: []ErrorRow{
		{ReadOnlyTopic, "READ_ONLY_TOPIC", "The topic is read-only."},
		{InvalidMirrorName, "INVALID_MIRROR_NAME", "The mirror name does not meet the naming rules."},
		{UnknownMirror, "UNKNOWN_MIRROR", "The mirror does not exist."},
		{TopicAlreadyInMirror, "TOPIC_ALREADY_IN_MIRROR", "The topic is already assigned to a mirror."},
		{TopicNotInMirror, "TOPIC_NOT_IN_MIRROR", "The topic does not belong to the specified mirror."},
		{MirrorTopicAlreadyPaused, "MIRROR_TOPIC_ALREADY_PAUSED", "The mirror topic is already paused."},
		{MirrorTopicNotPaused, "MIRROR_TOPIC_NOT_PAUSED", "The mirror topic is not paused."},
		{MirrorTopicBeingRemoved, "MIRROR_TOPIC_BEING_REMOVED", "The mirror topic is being removed."},
	},
	ConfigResourceType: 64,
}

// None serves no mirror API: every key keeps the meaning the cluster gives it.
var None = Dialect{Name: "none"}

// DialectByName returns the dialect a configuration names.
func DialectByName(name string) (*Dialect, bool) {
	for _, d := range []*Dialect{&Seed, &None} {
		if d.Name == name {
			return d, true
		}
	}
	return nil, false
}

// API returns the mirror API that has this key, false when the key is not ours.
func (d *Dialect) API(key int16) (API, bool) {
	for _, row := range d.Keys {
		if row.Key == key {
			return row.API, true
		}
	}
	return 0, false
}

// Key returns the API's number on the wire, false when the dialect does not serve it.
func (d *Dialect) Key(api API) (int16, bool) {
	for _, row := range d.Keys {
		if row.API == api {
			return row.Key, true
		}
	}
	return 0, false
}

// Error returns the name and default message the dialect gives to a code of its own, false for any other code.
func (d *Dialect) Error(code ErrorCode) (ErrorRow, bool) {
	for _, row := range d.Errors {
		if row.Code == code {
			return row, true
		}
	}
	return ErrorRow{}, false
}
