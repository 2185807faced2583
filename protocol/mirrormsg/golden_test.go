package mirrormsg_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

// goldenRPCRows is the number of rows of wire-golden.tsv for the keys of this package. A row that goes missing, or that has no
// codec, fails the test.
const goldenRPCRows = 190

// goldenRow is one byte string that the reference's own classes made.
type goldenRow struct {
	line      int
	api       string
	key       int16
	version   int16
	direction string
	meta      struct {
		Case          string
		Values        json.RawMessage
		Data          string // a Java toString, in place of Values
		Part          string
		ClientID      string `json:"clientId"`
		CorrelationID int32  `json:"correlationId"`
	}
	bytes []byte
}

func readGolden(t testing.TB) []goldenRow {
	t.Helper()
	f, err := os.Open("testdata/golden.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows []goldenRow
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		cells := strings.Split(lines.Text(), "\t")
		if len(cells) != 7 {
			t.Fatalf("line %d has %d cells", n, len(cells))
		}
		if n == 1 {
			continue
		}
		row := goldenRow{line: n, api: cells[1], key: number(t, cells[2]), version: number(t, cells[3]), direction: cells[4]}
		if err := json.Unmarshal([]byte(cells[5]), &row.meta); err != nil {
			t.Fatalf("line %d: %v", n, err)
		}
		if row.bytes, err = hex.DecodeString(cells[6]); err != nil {
			t.Fatalf("line %d: %v", n, err)
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}

func number(t testing.TB, s string) int16 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return int16(n)
}

// values returns the row's expected field values.
func (row *goldenRow) values(t *testing.T) *val {
	t.Helper()
	raw := []byte(row.meta.Values)
	if row.meta.Data != "" {
		raw = javaToJSON(t, row.meta.Data)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var fields map[string]any
	if err := d.Decode(&fields); err != nil {
		t.Fatal(err)
	}
	return newVal(t, fields)
}

func (row *goldenRow) isResponse() bool {
	return row.direction == "response" || strings.Contains(row.meta.Part, "response")
}

func TestGoldenRows(t *testing.T) {
	rows := readGolden(t)
	if len(rows) != goldenRPCRows {
		t.Errorf("%d rows, want %d", len(rows), goldenRPCRows)
	}
	checked := 0
	for _, row := range rows {
		t.Run(fmt.Sprintf("line%d/%s/%s", row.line, row.api, row.direction), func(t *testing.T) {
			switch {
			case row.direction == "request", row.direction == "response":
				checkGoldenBody(t, &row, row.bytes)
			case row.direction == "header" && row.isResponse():
				checkGoldenResponseFrame(t, &row)
			case row.direction == "header":
				checkGoldenRequestFrame(t, &row)
			default:
				t.Fatalf("direction %q", row.direction)
			}
			checked++
		})
	}
	if checked != goldenRPCRows {
		t.Errorf("%d rows checked, want %d", checked, goldenRPCRows)
	}
}

// checkGoldenBody decodes the bytes, compares with the values the row states, and encodes those values again.
func checkGoldenBody(t *testing.T, row *goldenRow, body []byte) {
	t.Helper()
	values := row.values(t)
	want, got := goldenMessage(t, row, values)
	values.done()
	if err := got.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Exporter(isKmsgTags)); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
	if encoded := want.AppendTo(nil); !bytes.Equal(encoded, body) {
		t.Errorf("encoded\n%x, want\n%x", encoded, body)
	}
	if again := got.AppendTo([]byte("kept")); !bytes.Equal(again, append([]byte("kept"), body...)) {
		t.Errorf("encoded what was decoded:\n%x, want\n%x", again, body)
	}
}

// checkGoldenRequestFrame makes the frame as a kgo client does, through the kmsg adapters.
func checkGoldenRequestFrame(t *testing.T, row *goldenRow) {
	t.Helper()
	clientID, correlationID := "golden", int32(7)
	if row.meta.ClientID != "" {
		clientID, correlationID = row.meta.ClientID, row.meta.CorrelationID
	}
	values := row.values(t)
	want, _ := goldenMessage(t, row, values)
	values.done()
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, asKmsg(t, want), correlationID)
	headerBytes := len(frame) - 4 - len(want.AppendTo(nil))
	var got []byte
	switch {
	case row.meta.Part == "request header v2 only":
		got = frame[4 : 4+headerBytes]
	case strings.HasPrefix(row.meta.Part, "request header v2 + body"):
		got = frame[4:]
		checkGoldenBody(t, row, row.bytes[headerBytes:])
	case strings.HasPrefix(row.meta.Part, "int32 size + request header v2 + body"):
		got = frame
		checkGoldenBody(t, row, row.bytes[4+headerBytes:])
	default:
		t.Fatalf("part %q", row.meta.Part)
	}
	if !bytes.Equal(got, row.bytes) {
		t.Errorf("framed\n%x, want\n%x", got, row.bytes)
	}
}

// checkGoldenResponseFrame: int32 size, correlation id 7, an empty tag section, the body.
func checkGoldenResponseFrame(t *testing.T, row *goldenRow) {
	t.Helper()
	const headerHex = "0000000700"
	prefix := fmt.Sprintf("%08x%s", len(row.bytes)-4, headerHex)
	body, ok := strings.CutPrefix(hex.EncodeToString(row.bytes), prefix)
	if !ok {
		t.Fatalf("frame does not begin with %s", prefix)
	}
	raw, err := hex.DecodeString(body)
	if err != nil {
		t.Fatal(err)
	}
	checkGoldenBody(t, row, raw)
}

func asKmsg(t *testing.T, m mirrormsg.Message) kmsg.Request {
	t.Helper()
	if req, ok := m.(kmsg.Request); ok {
		return req
	}
	call, err := mirrormsg.NewCall(&mirrormsg.Seed, m.(mirrormsg.Request))
	if err != nil {
		t.Fatal(err)
	}
	return call
}

// val is a JSON object that must be used up: asking for a field it lacks fails, and so does a field nobody asked for.
type val struct {
	t      *testing.T
	fields map[string]any
	used   map[string]bool
}

func newVal(t *testing.T, fields map[string]any) *val {
	return &val{t: t, fields: fields, used: map[string]bool{}}
}

func (v *val) done() {
	v.t.Helper()
	for name := range v.fields {
		if !v.used[name] {
			v.t.Errorf("field %s of the row was never compared", name)
		}
	}
}

func (v *val) get(name string) any {
	v.t.Helper()
	x, ok := v.fields[name]
	if !ok {
		v.t.Fatalf("the row has no field %s, only %v", name, v.fields)
	}
	v.used[name] = true
	return x
}

func (v *val) has(name string) bool { _, ok := v.fields[name]; return ok }

func (v *val) str(name string) string {
	v.t.Helper()
	s, ok := v.get(name).(string)
	if !ok {
		v.t.Fatalf("%s is not a string", name)
	}
	return s
}

func (v *val) nullableStr(name string) *string {
	v.t.Helper()
	if v.get(name) == nil {
		return nil
	}
	s := v.str(name)
	return &s
}

func (v *val) boolean(name string) bool {
	v.t.Helper()
	b, ok := v.get(name).(bool)
	if !ok {
		v.t.Fatalf("%s is not a bool", name)
	}
	return b
}

func (v *val) integer(name string, bits int) int64 {
	v.t.Helper()
	return toInteger(v.t, v.get(name), bits)
}

func toInteger(t *testing.T, x any, bits int) int64 {
	t.Helper()
	n, ok := x.(json.Number)
	if !ok {
		t.Fatalf("%v is not a number", x)
	}
	i, err := strconv.ParseInt(n.String(), 10, bits)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func (v *val) i8(name string) int8   { v.t.Helper(); return int8(v.integer(name, 8)) }
func (v *val) i16(name string) int16 { v.t.Helper(); return int16(v.integer(name, 16)) }
func (v *val) i32(name string) int32 { v.t.Helper(); return int32(v.integer(name, 32)) }
func (v *val) i64(name string) int64 { v.t.Helper(); return v.integer(name, 64) }

func (v *val) code(name string) mirrormsg.ErrorCode {
	v.t.Helper()
	return mirrormsg.ErrorCode(v.i16(name))
}

func (v *val) uuid(name string) (id [16]byte) {
	v.t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(v.str(name))
	if err != nil || len(raw) != 16 {
		v.t.Fatalf("%s is not a topic id", name)
	}
	copy(id[:], raw)
	return id
}

func (v *val) array(name string) []any {
	v.t.Helper()
	a, ok := v.get(name).([]any)
	if !ok {
		v.t.Fatalf("%s is not an array", name)
	}
	return a
}

func (v *val) strs(name string) []string {
	v.t.Helper()
	var out []string
	for _, x := range v.array(name) {
		out = append(out, x.(string))
	}
	return out
}

// list builds one element of an array of objects after the other.
func list[T any](v *val, name string, build func(*val) T) []T {
	v.t.Helper()
	var out []T
	for _, x := range v.array(name) {
		element := newVal(v.t, x.(map[string]any))
		out = append(out, build(element))
		element.done()
	}
	return out
}

// object builds a nullable object, nil for null.
func object[T any](v *val, name string, build func(*val) *T) *T {
	v.t.Helper()
	x := v.get(name)
	if x == nil {
		return nil
	}
	o := newVal(v.t, x.(map[string]any))
	defer o.done()
	return build(o)
}
