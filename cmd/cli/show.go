package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

// mirrorRow is a mirror of --list.
type mirrorRow struct {
	Mirror          string `json:"mirror"`
	Topics          int32  `json:"topics"`
	SourceClusterID string `json:"sourceClusterId"`
	SourceBootstrap string `json:"sourceBootstrap"`
}

func (c *client) list(ctx context.Context, env Env, o *options) error {
	response, err := call[*mirrormsg.ListMirrorsResponse](ctx, c, c.kafka, &mirrormsg.ListMirrorsRequest{Marker: extended()})
	if err != nil {
		return err
	}
	rows := make([]mirrorRow, 0, len(response.Mirrors))
	for _, m := range response.Mirrors {
		rows = append(rows, mirrorRow{m.MirrorName, m.TopicCount, m.SourceClusterID, m.SourceBootstrap})
	}
	slices.SortFunc(rows, func(a, b mirrorRow) int { return cmp.Compare(a.Mirror, b.Mirror) })
	if o.json {
		return printJSON(env.Out, rows)
	}
	if len(rows) == 0 {
		fmt.Fprintln(env.Out, "No mirrors found")
		return nil
	}
	const line = "%-30s %-10v %-26s %-50s\n"
	fmt.Fprintf(env.Out, line, "MIRROR", "TOPICS", "SOURCE-CLUSTER-ID", "SOURCE-BOOTSTRAP")
	for _, r := range rows {
		fmt.Fprintf(env.Out, line, cutLeft(r.Mirror, 30), r.Topics, orDash(r.SourceClusterID), cutLeft(orDash(r.SourceBootstrap), 50))
	}
	return nil
}

// partitionRow is a partition of --describe.
type partitionRow struct {
	Mirror            string `json:"mirror"`
	Topic             string `json:"topic"`
	Partition         int32  `json:"partition"`
	SourceOffset      int64  `json:"sourceOffset"`
	DestinationOffset int64  `json:"destinationOffset"`
	Lag               int64  `json:"lag"`
	State             string `json:"state"`
	ErrorMessage      string `json:"errorMessage,omitempty"`
	Engine            string `json:"engine,omitempty"`
	Owner             string `json:"owner,omitempty"`
	StateSinceMs      int64  `json:"stateSinceMs,omitempty"`
	Attempt           int32  `json:"retryAttempt,omitempty"`
	LastError         string `json:"lastError,omitempty"`
	LagMs             int64  `json:"lagMs,omitempty"`
	OffsetGuard       string `json:"offsetGuard,omitempty"`
}

// describe asks every broker, as the reference's tool does, since each answers for the partitions that it leads.
func (c *client) describe(ctx context.Context, env Env, o *options) error {
	brokers, err := c.brokers(ctx)
	if err != nil {
		return err
	}
	type key struct {
		mirror, topic string
		partition     int32
	}
	byKey := map[key]partitionRow{}
	trouble := map[string]string{}

	for _, b := range brokers {
		req := &mirrormsg.DescribeMirrorsRequest{Marker: extended()}
		if o.mirror != "" {
			req.MirrorNames = []string{o.mirror}
		}
		response, err := call[*mirrormsg.DescribeMirrorsResponse](ctx, c, b, req)
		if isUnknownMirror(err) {
			continue // as the reference's tool, which is not told: there is nothing to show
		}
		if err != nil {
			return err
		}
		for _, m := range response.Mirrors {
			if m.ErrorCode != mirrormsg.NoError {
				trouble[m.MirrorName] = statusError(&mirrormsg.Status{ErrorCode: m.ErrorCode}).Error()
				continue
			}

			if m.Ext != nil && m.Ext.LastError != "" {
				trouble[m.MirrorName] = m.Ext.LastError
			}
			for _, t := range m.Topics {
				for _, p := range t.Partitions {
					byKey[key{m.MirrorName, t.TopicName, p.PartitionIndex}] = row(m.MirrorName, t.TopicName, p)
				}
			}
		}
	}
	rows := make([]partitionRow, 0, len(byKey))
	for _, r := range byKey {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b partitionRow) int {
		return cmp.Or(cmp.Compare(a.Mirror, b.Mirror), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	if o.json {
		return printJSON(env.Out, rows)
	}
	switch {
	case len(rows) > 0:
		printPartitions(env.Out, rows)
	case o.mirror == "":
		fmt.Fprintln(env.Out, "No mirror partitions found")
	}
	printReasons(env.Err, trouble, rows)
	return nil
}

func isUnknownMirror(err error) bool {
	var refused *serverError
	return errors.As(err, &refused) && refused.code == mirrormsg.UnknownMirror
}

func (c *client) brokers(ctx context.Context) ([]kmsg.Requestor, error) {
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{}
	response, err := request.RequestWith(ctx, c.kafka)
	if err != nil {
		return nil, fmt.Errorf("list the brokers at %s: %w", c.servers, err)
	}
	var brokers []kmsg.Requestor
	for _, b := range response.Brokers {
		brokers = append(brokers, c.kafka.Broker(int(b.NodeID)))
	}
	if len(brokers) == 0 {
		return nil, fmt.Errorf("list the brokers at %s: there are none", c.servers)
	}
	return brokers, nil
}

func row(mirror, topic string, p mirrormsg.DescribedPartition) partitionRow {
	r := partitionRow{
		Mirror: mirror, Topic: topic, Partition: p.PartitionIndex,
		SourceOffset: p.SourceOffset, DestinationOffset: p.DestinationOffset, Lag: p.Lag, State: p.State,
	}
	if e := p.Ext; e != nil {
		r.ErrorMessage, r.Engine, r.Owner, r.StateSinceMs = e.ErrorMessage, e.Engine, e.Owner, e.StateSinceMs
		r.Attempt, r.LastError, r.LagMs, r.OffsetGuard = e.Attempt, e.LastError, e.LagMs, e.OffsetGuard
	}
	return r
}

// printPartitions prints the table as the KIP's page shows it (LAG is 8 wide there).
func printPartitions(out io.Writer, rows []partitionRow) {
	const line = "%-30s %-40s %-10v %-15s %-18s %-8s %-12s\n"
	fmt.Fprintf(out, line, "MIRROR", "TOPIC", "PARTITION", "SOURCE-OFFSET", "DESTINATION-OFFSET", "LAG", "STATE")
	for _, r := range rows {
		fmt.Fprintf(out, line, cutLeft(r.Mirror, 30), cutLeft(r.Topic, 40), r.Partition,
			figure(r.SourceOffset), figure(r.DestinationOffset), figure(r.Lag), r.State)
	}
}

// printReasons says what the table has no column for.
func printReasons(out io.Writer, trouble map[string]string, rows []partitionRow) {
	for _, mirror := range sortedKeys(trouble) {
		fmt.Fprintf(out, "Mirror %s: %s\n", mirror, trouble[mirror])
	}
	for _, r := range rows {
		if r.ErrorMessage != "" {
			fmt.Fprintf(out, "%s %s-%d: %s: %s\n", r.Mirror, r.Topic, r.Partition, r.State, r.ErrorMessage)
		}
	}
}

func printJSON(out io.Writer, rows any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(rows)
}

func figure(n int64) string {
	if n < 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// cutLeft keeps the end of a value that is longer than its column, which tells names apart better than the start.
func cutLeft(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return "..." + string(r[len(r)-(width-3):])
	}
	return s
}
