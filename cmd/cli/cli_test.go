package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

type result struct {
	out, err string
	exit     int
}

func runTool(t *testing.T, args ...string) result {
	t.Helper()
	var out, errs strings.Builder
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	exit := Run(ctx, args, Env{
		Out: &out, Err: &errs, Version: "1.2.3",
		ReadFile: func(name string) ([]byte, error) {
			if name != "source.properties" {
				return nil, fs.ErrNotExist
			}
			return []byte("# the source\nbootstrap.servers = src1:9092,\\\n  src2:9092\nsasl.jaas.config=${env:JAAS}\nempty=\n"), nil
		},
		ClientOptions: func(map[string]string) ([]kgo.Opt, error) { return nil, nil },
	})
	return result{out.String(), errs.String(), exit}
}

func TestMisuse(t *testing.T) {
	const b = "--bootstrap-server=localhost:1"
	oneAction := "Command must include exactly one action: --create, --alter, --add, --remove, --pause, --resume, --delete, --list, or --describe\n"
	for _, c := range []struct {
		args  []string
		first string // what standard error begins with
		help  bool
	}{
		{nil, "Create cluster mirrors and add topics to them.\n", true},
		{[]string{"--help"}, "This tool helps to create cluster mirrors and add topics to them.\n", true},
		{[]string{b}, oneAction, true},
		{[]string{b, "--list", "--describe"}, oneAction, true},
		{[]string{"--list"}, "--bootstrap-server must be specified\n", false},
		{[]string{b, "--create"}, "--mirror must be specified\n", false},
		{[]string{b, "--delete"}, "--mirror must be specified\n", false},
		{[]string{b, "--create", "--mirror=m"}, "--mirror-config must be specified when creating a mirror\n", false},
		{[]string{b, "--alter", "--mirror=m"}, "--mirror-config must be specified when altering a mirror\n", false},
		{[]string{b, "--add", "--mirror=m"}, "--topic must be specified when adding topic(s) to a mirror\n", false},
		{[]string{b, "--remove", "--mirror=m"}, "--topic must be specified when removing topic(s) from a mirror\n", false},
		{[]string{b, "--pause", "--mirror=m"}, "--topic must be specified when pausing mirror topic(s)\n", false},
		{[]string{b, "--resume", "--mirror=m"}, "--topic must be specified when resuming mirror topic(s)\n", false},
		{[]string{b, "--add", "--mirror=m", "--topic=a", "--topic=b"}, "--topic must be given once", false},
		{[]string{b, "--add", "--mirror=m", "--topic=a", "--replication-factor=0"}, "--replication-factor must be at least 1, got 0\n", false},
		{[]string{b, "--list", "--output=yaml"}, `--output must be table or json, got "yaml"` + "\n", false},
		{[]string{b, "--list", "stray"}, `unexpected argument "stray"` + "\n", false},
		{[]string{b, "--nonsense"}, "unknown flag: --nonsense\n", false},
		{[]string{b, "--add", "--replication-factor=many"}, `invalid argument "many"`, false},
	} {
		r := runTool(t, c.args...)
		if r.exit != 1 || r.out != "" || !strings.HasPrefix(r.err, c.first) || strings.Contains(r.err, "--mirror-config string") != c.help {
			t.Errorf("%q: %+v", c.args, r)
		}
	}
}

func TestVersion(t *testing.T) {
	if r := runTool(t, "--version"); r != (result{out: "1.2.3\n"}) {
		t.Errorf("%+v", r)
	}
}

func text(s string) *string { return &s }

func TestCreateSendsTheProperties(t *testing.T) {
	var got mirrormsg.CreateMirrorRequest
	p := newFakeProxy(t, func(key int16, body []byte) []byte {
		if key != 94 {
			t.Errorf("key %d", key)
		}
		if err := got.ReadFrom(body); err != nil {
			t.Error(err)
		}
		return (&mirrormsg.CreateMirrorResponse{}).AppendTo(nil)
	})
	r := runTool(t, "--bootstrap-server", p.address(), "--create", "--mirror", "m", "--mirror-config", "source.properties")
	if r != (result{out: "Created mirror m\n"}) {
		t.Errorf("%+v", r)
	}
	want := []mirrormsg.MirrorConfig{{Name: "bootstrap.servers", Value: text("src1:9092,src2:9092")}, {Name: "empty", Value: text("")}, {Name: "sasl.jaas.config", Value: text("${env:JAAS}")}}
	if d := cmp.Diff(want, got.Config); d != "" || got.MirrorName != "m" {
		t.Error(d)
	}
	r = runTool(t, "--bootstrap-server", p.address(), "--create", "--mirror", "m", "--mirror-config", "missing.properties")
	if r.exit != 1 || !strings.HasPrefix(r.err, "read properties: ") {
		t.Errorf("%+v", r)
	}
}

func TestErrorsAreOneLineAndExit1(t *testing.T) {
	code, message := mirrormsg.InvalidMirrorName, text("Mirror name must not end with '.removed' or '.paused'")
	p := newFakeProxy(t, func(int16, []byte) []byte {
		return (&mirrormsg.CreateMirrorResponse{Status: mirrormsg.Status{ErrorCode: code, ErrorMessage: message}}).AppendTo(nil)
	})
	args := []string{"--bootstrap-server", p.address(), "--create", "--mirror", "m.paused", "--mirror-config", "source.properties"}
	if r := runTool(t, args...); r != (result{err: "Mirror name must not end with '.removed' or '.paused'\n", exit: 1}) {
		t.Errorf("%+v", r)
	}
	message = nil // a server that sends the code alone
	if r := runTool(t, args...); r != (result{err: "The mirror name does not meet the naming rules.\n", exit: 1}) {
		t.Errorf("%+v", r)
	}
	code = mirrormsg.ClusterAuthorizationFailed
	if r := runTool(t, args...); r.exit != 1 || !strings.HasPrefix(r.err, "CLUSTER_AUTHORIZATION_FAILED") {
		t.Errorf("%+v", r)
	}
}

func TestAlterSetsEveryProperty(t *testing.T) {
	var got *kmsg.IncrementalAlterConfigsRequest
	var refuse *string
	p := newFakeProxy(t, func(key int16, body []byte) []byte {
		got = kmsg.NewPtrIncrementalAlterConfigsRequest()
		got.Version = 1
		if err := got.ReadFrom(body); err != nil || key != 44 {
			t.Errorf("key %d: %v", key, err)
		}
		r := kmsg.NewPtrIncrementalAlterConfigsResponse()
		r.Version = 1
		resource := kmsg.NewIncrementalAlterConfigsResponseResource()
		if refuse != nil {
			resource.ErrorCode, resource.ErrorMessage = 40, refuse
		}
		r.Resources = append(r.Resources, resource)
		return r.AppendTo(nil)
	})
	args := []string{"--bootstrap-server", p.address(), "--alter", "--mirror", "m", "--mirror-config", "source.properties"}
	if r := runTool(t, args...); r != (result{out: "Altered mirror m\n"}) {
		t.Errorf("%+v", r)
	}
	resource := got.Resources[0]
	if resource.ResourceType != 64 || resource.ResourceName != "m" || len(resource.Configs) != 3 || resource.Configs[0].Op != 0 || *resource.Configs[0].Value != "src1:9092,src2:9092" {
		t.Errorf("%+v", resource)
	}
	refuse = text("Unknown mirror configuration: empty")
	if r := runTool(t, args...); r != (result{err: *refuse + "\n", exit: 1}) {
		t.Errorf("%+v", r)
	}
}

func TestTopicActions(t *testing.T) {
	var got mirrormsg.TopicsRequest
	answer := mirrormsg.TopicsResponse{}
	p := newFakeProxy(t, func(key int16, body []byte) []byte {
		got.Op, _ = mirrormsg.Seed.API(key)
		if err := got.ReadFrom(body); err != nil {
			t.Error(err)
		}
		return answer.AppendTo(nil)
	})
	ok := []mirrormsg.TopicResult{{Name: "b"}, {Name: "a"}}
	for _, c := range []struct {
		name   string
		action string
		answer mirrormsg.TopicsResponse
		want   result
	}{
		{"add", "--add", mirrormsg.TopicsResponse{Topics: ok}, result{out: "Added 2 topic(s) to mirror m: [b, a]\n"}},
		{"remove", "--remove", mirrormsg.TopicsResponse{Topics: ok}, result{out: "Removed 2 topic(s) from mirror m: [b, a]\n"}},
		{"pause", "--pause", mirrormsg.TopicsResponse{Topics: ok}, result{out: "Paused mirroring for 2 topic(s): [b, a]\n"}},
		{"resume", "--resume", mirrormsg.TopicsResponse{Topics: ok}, result{out: "Resumed mirroring for 2 topic(s): [b, a]\n"}},
		{"nothing", "--add", mirrormsg.TopicsResponse{}, result{err: "No topics matching pattern 't.*' found\n", exit: 1}},
		{"no mirror", "--add", mirrormsg.TopicsResponse{Status: mirrormsg.Status{ErrorCode: mirrormsg.UnknownMirror}}, result{err: "Mirror 'm' not found or has no configuration\n", exit: 1}},
		{"some failed", "--add", mirrormsg.TopicsResponse{Topics: []mirrormsg.TopicResult{{Name: "a"}, {Name: "b", ErrorCode: 42, ErrorMessage: text("topic b holds 3 records")}}},
			result{out: "Added 1 topic(s) to mirror m: [a]\n", err: "Failed to add topic b: topic b holds 3 records\n1 of 2 topic(s) failed\n", exit: 1}},
		{"all failed", "--pause", mirrormsg.TopicsResponse{Status: mirrormsg.Status{ErrorCode: 141}, Topics: []mirrormsg.TopicResult{{Name: "b", ErrorCode: 141}}},
			result{err: "Failed to pause topic b: The mirror topic is being removed.\n1 of 1 topic(s) failed\n", exit: 1}},
	} {
		answer = c.answer
		if r := runTool(t, "--bootstrap-server", p.address(), c.action, "--mirror", "m", "--topic", "t.*", "--replication-factor", "2"); r != c.want {
			t.Errorf("%s: %+v", c.name, r)
		}
		factor := int16(0)
		if c.action == "--add" {
			factor = 2
		}
		want := mirrormsg.TopicsRequest{Op: got.Op, MirrorName: "m", Marker: extended(), ReplicationFactor: factor, Patterns: []string{"t.*"}}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(c.name, d)
		}
	}
}

func TestListTableAndJSON(t *testing.T) {
	mirrors := []mirrormsg.ListedMirror{{MirrorName: "z", SourceBootstrap: "src:9092", SourceClusterID: "WZEKwK-b123oT3ZOSU0dgw", TopicCount: 2}, {MirrorName: strings.Repeat("a", 31)}}
	p := newFakeProxy(t, func(int16, []byte) []byte { return (&mirrormsg.ListMirrorsResponse{Mirrors: mirrors}).AppendTo(nil) })
	r := runTool(t, "--bootstrap-server", p.address(), "--list")
	want := fmt.Sprintf("%-30s %-10s %-26s %-50s\n%-30s %-10s %-26s %-50s\n%-30s %-10s %-26s %-50s\n",
		"MIRROR", "TOPICS", "SOURCE-CLUSTER-ID", "SOURCE-BOOTSTRAP",
		"..."+strings.Repeat("a", 27), "0", "-", "-", "z", "2", "WZEKwK-b123oT3ZOSU0dgw", "src:9092")
	if r != (result{out: want}) {
		t.Errorf("%+v", r)
	}
	r = runTool(t, "--bootstrap-server", p.address(), "--list", "--output", "json")
	var rows []mirrorRow
	if err := json.Unmarshal([]byte(r.out), &rows); err != nil || len(rows) != 2 || rows[1] != (mirrorRow{"z", 2, "WZEKwK-b123oT3ZOSU0dgw", "src:9092"}) {
		t.Errorf("%v %+v", err, r)
	}
	mirrors = nil
	if r := runTool(t, "--bootstrap-server", p.address(), "--list"); r != (result{out: "No mirrors found\n"}) {
		t.Errorf("%+v", r)
	}
	if r := runTool(t, "--bootstrap-server", p.address(), "--list", "--output=json"); r != (result{out: "[]\n"}) {
		t.Errorf("%+v", r)
	}
}

// The rows of the KIP's page, merged from two brokers, look as they do there.
func TestDescribeTable(t *testing.T) {
	asked := 0
	p := newFakeProxy(t, func(int16, []byte) []byte {
		asked++
		partitions := []mirrormsg.DescribedPartition{{PartitionIndex: int32(asked % 2), SourceOffset: 94, DestinationOffset: 84, Lag: 10, State: "MIRRORING",
			Ext: &mirrormsg.PartitionExt{OffsetGuard: "sequence"}}}
		if asked%2 == 0 {
			partitions = append(partitions, mirrormsg.DescribedPartition{
				PartitionIndex: 2, SourceOffset: -1, DestinationOffset: -1, Lag: -1, State: "FAILED",
				Ext: &mirrormsg.PartitionExt{ErrorMessage: "source data from offset 5 to 9 is gone"},
			})
		}
		return (&mirrormsg.DescribeMirrorsResponse{Mirrors: []mirrormsg.DescribedMirror{{
			MirrorName: "my-mirror", Ext: &mirrormsg.MirrorExt{LastError: "src:9092: connection refused"},
			Topics: []mirrormsg.DescribedTopic{{TopicName: "foo", Partitions: partitions}},
		}}}).AppendTo(nil)
	})
	r := runTool(t, "--bootstrap-server", p.address(), "--describe")
	want := `MIRROR                         TOPIC                                    PARTITION  SOURCE-OFFSET   DESTINATION-OFFSET LAG      STATE       
my-mirror                      foo                                      0          94              84                 10       MIRRORING   
my-mirror                      foo                                      1          94              84                 10       MIRRORING   
my-mirror                      foo                                      2          -               -                  -        FAILED      
`
	if r.out != want || r.exit != 0 {
		t.Error(cmp.Diff(want, r.out))
	}
	if want := "Mirror my-mirror: src:9092: connection refused\nmy-mirror foo-2: FAILED: source data from offset 5 to 9 is gone\n"; r.err != want {
		t.Errorf("%q", r.err)
	}
	if asked != 2 {
		t.Errorf("%d brokers asked, want each of 2", asked)
	}
	r = runTool(t, "--bootstrap-server", p.address(), "--describe", "--output=json")
	var rows []partitionRow
	if err := json.Unmarshal([]byte(r.out), &rows); err != nil || len(rows) != 3 || rows[2].ErrorMessage == "" || rows[0].Lag != 10 ||
		rows[0].OffsetGuard != "sequence" || rows[2].OffsetGuard != "" || !strings.Contains(r.out, `"offsetGuard": "sequence"`) {
		t.Errorf("%v %+v", err, r)
	}
}

func TestDescribeNothing(t *testing.T) {
	p := newFakeProxy(t, func(int16, []byte) []byte { return (&mirrormsg.DescribeMirrorsResponse{}).AppendTo(nil) })
	if r := runTool(t, "--bootstrap-server", p.address(), "--describe"); r != (result{out: "No mirror partitions found\n"}) {
		t.Errorf("%+v", r)
	}
	if r := runTool(t, "--bootstrap-server", p.address(), "--describe", "--mirror=nope"); r != (result{}) {
		t.Errorf("%+v", r)
	}
}

// What the mirror APIs answer to a client of ours about a mirror that does not exist: the tool shows nothing, as the
// reference's, which such an answer tells nothing.
func TestDescribeUnknownMirror(t *testing.T) {
	p := newFakeProxy(t, func(int16, []byte) []byte {
		message := `mirror "nope" does not exist`
		return (&mirrormsg.DescribeMirrorsResponse{
			Status:  mirrormsg.Status{ErrorCode: mirrormsg.UnknownMirror, ErrorMessage: &message},
			Mirrors: []mirrormsg.DescribedMirror{{MirrorName: "nope", ErrorCode: mirrormsg.UnknownMirror}},
		}).AppendTo(nil)
	})
	if r := runTool(t, "--bootstrap-server", p.address(), "--describe", "--mirror=nope"); r != (result{}) {
		t.Errorf("%+v", r)
	}
	if r := runTool(t, "--bootstrap-server", p.address(), "--describe", "--mirror=nope", "--output=json"); r != (result{out: "[]\n"}) {
		t.Errorf("%+v", r)
	}
}

// Mirror keys mean other things to a stock cluster (94 is UnregisterController in Kafka 4.4): nothing must be sent there.
func TestStockClusterIsRefused(t *testing.T) {
	p := newFakeProxy(t, func(key int16, _ []byte) []byte { t.Errorf("key %d was sent", key); return nil })
	p.stock = true
	r := runTool(t, "--bootstrap-server", p.address(), "--list")
	if r.exit != 1 || !strings.Contains(r.err, "does not offer cluster mirroring") {
		t.Errorf("%+v", r)
	}
}

func TestWaitsWhileTheStateIsLoading(t *testing.T) {
	asked := 0
	p := newFakeProxy(t, func(int16, []byte) []byte {
		asked++
		var r mirrormsg.ListMirrorsResponse
		if asked < 3 {
			r.ErrorCode = mirrormsg.CoordinatorLoadInProgress
		}
		return r.AppendTo(nil)
	})
	if r := runTool(t, "--bootstrap-server", p.address(), "--list"); r != (result{out: "No mirrors found\n"}) || asked != 3 {
		t.Errorf("%d: %+v", asked, r)
	}
}

func TestNobodyThere(t *testing.T) {
	p := newFakeProxy(t, nil)
	p.listener.Close()
	r := runTool(t, "--bootstrap-server", p.address(), "--list")
	if r.exit != 1 || !strings.HasPrefix(r.err, "cannot reach kafka-mirror-proxy at "+p.address()) {
		t.Errorf("%+v", r)
	}
}

func TestColonPortIsThisMachine(t *testing.T) {
	o := &options{action: list}
	if err := o.check(1, ":9094, b:1", nil, "table", false); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"localhost:9094", "b:1"}, o.bootstrapServers); d != "" {
		t.Error(d)
	}
}
