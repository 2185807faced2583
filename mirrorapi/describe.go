package mirrorapi

import (
	"context"
	"fmt"
	"slices"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

// bootstrapNode is the node id of a listener that belongs to no broker.
const bootstrapNode int32 = -1

// describeMirrors answers DescribeMirrors: on a broker's listener with the partitions that this broker reports, on the
// bootstrap listener with all of them. A client that asks every broker and merges the answers sees each partition once.
func (h *Handler) describeMirrors(ctx context.Context, node int32, req *mirrormsg.DescribeMirrorsRequest) mirrormsg.Response {
	resp := req.NewResponse().(*mirrormsg.DescribeMirrorsResponse)
	view := h.store.View()
	mirrors, missing := chosenMirrors(view, req.MirrorNames)
	d := describer{handler: h, view: view, nowMs: h.clock().UnixMilli(), extended: req.WantsExtensions(), node: node}
	if node != bootstrapNode {
		var names []string
		for _, m := range mirrors {
			for _, topic := range view.TopicsOf(m.Name) {
				names = append(names, topic.Name)
			}
		}
		info, err := h.leaders.get(ctx, names)
		if err != nil {
			setFailure(&resp.Status, err)
			return resp
		}
		d.cluster = info
	}
	for _, m := range mirrors {
		row := d.mirror(ctx, m)
		// As the reference, a mirror of which there is nothing to report is left out; but a client of ours, which asks
		// once, gets to know its error.
		if len(row.Topics) > 0 || d.extended && node == bootstrapNode {
			resp.Mirrors = append(resp.Mirrors, row)
		}
	}
	if len(missing) > 0 && len(mirrors) == 0 {
		setFailure(&resp.Status, unknownMirror(missing[0]))
	}
	if d.extended {
		for _, name := range missing {
			resp.Mirrors = append(resp.Mirrors,
				mirrormsg.DescribedMirror{MirrorName: name, ErrorCode: mirrormsg.UnknownMirror})
		}
	}
	return resp
}

// chosenMirrors returns the mirrors of these names, all for none, and the names that no mirror has.
func chosenMirrors(view *state.View, names []string) (mirrors []*state.Mirror, missing []string) {
	if len(names) == 0 {
		return view.Mirrors(), nil
	}
	names = slices.Clone(names)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if m, ok := view.Mirror(name); ok {
			mirrors = append(mirrors, m)
		} else {
			missing = append(missing, name)
		}
	}
	return mirrors, missing
}

// describer makes the rows of one answer.
type describer struct {
	handler  *Handler
	view     *state.View
	nowMs    int64
	extended bool
	node     int32
	cluster  *clusterInfo // nil on the bootstrap listener
}

func (d *describer) mirror(ctx context.Context, m *state.Mirror) mirrormsg.DescribedMirror {
	row := mirrormsg.DescribedMirror{MirrorName: m.Name}
	engine := ""
	for _, topic := range d.view.TopicsOf(m.Name) {
		if engine == "" {
			engine = topic.Engine
		}
		if partitions := d.partitions(topic); len(partitions) > 0 {
			row.Topics = append(row.Topics, mirrormsg.DescribedTopic{TopicName: topic.Name, Partitions: partitions})
		}
	}
	if d.extended {
		row.Ext = &mirrormsg.MirrorExt{
			SourceBootstrap: m.Configs[configBootstrapServers], SourceClusterID: m.SourceClusterID,
			Engine: engine, LastError: d.handler.mirrorProblem(ctx, m),
		}
	}
	return row
}

func (d *describer) partitions(topic *state.Topic) []mirrormsg.DescribedPartition {
	var rows []mirrormsg.DescribedPartition
	for index := range topic.Partitions {
		if d.cluster != nil && d.cluster.reporter(topic.Name, index) != d.node {
			continue
		}
		rows = append(rows, d.partition(topic, state.PartitionID{Topic: topic.ID, Partition: index}))
	}
	return rows
}

// partition describes a partition. Only one that is MIRRORING has figures.
func (d *describer) partition(topic *state.Topic, id state.PartitionID) mirrormsg.DescribedPartition {
	p := d.view.Partition(id)
	row := mirrormsg.DescribedPartition{
		PartitionIndex: id.Partition, SourceOffset: -1, DestinationOffset: -1, Lag: -1, State: p.Status.String(),
	}
	lagMs, waitsFor, guard, inDoubt := int64(-1), int64(-1), "", false
	if live, ok := d.handler.live.Get(id); ok && p.Status == state.Mirroring {
		guard = live.Guard(d.nowMs)
		row.SourceOffset, row.DestinationOffset = live.SourceOffset.Load(), live.DestinationOffset.Load()
		waitsFor, inDoubt = live.OpenTransactionOffset.Load(), live.InDoubt.Load()
		if row.SourceOffset >= 0 && row.DestinationOffset >= 0 {
			row.Lag = max(0, row.SourceOffset-row.DestinationOffset)
			lagMs = 0
			if since := live.LaggingSinceMs.Load(); since > 0 {
				lagMs = max(0, d.nowMs-since)
			}
		}
	}
	if !d.extended {
		return row
	}
	row.Ext = &mirrormsg.PartitionExt{
		Engine: topic.Engine, Owner: d.view.Owner().Address, StateSinceMs: -1, Attempt: p.Attempt,
		LastError: p.Error, LagMs: lagMs, OffsetGuard: guard,
	}
	if p.Status != state.Unknown {
		row.Ext.StateSinceMs = p.SinceMs
	}
	if row.Ext.LastError == "" {
		row.Ext.LastError = topic.Error
	}
	if row.Ext.LastError == "" {
		row.Ext.LastError = d.view.Progress(id).Skipped.Note // for as long as the topic is in the mirror
	}
	switch {
	case p.Status == state.Failed:
		row.Ext.ErrorMessage = p.Error
	case topic.Error != "":
		row.Ext.ErrorMessage = topic.Error
	case inDoubt:
		row.Ext.ErrorMessage = "waits until what was sent earlier, and never answered, cannot arrive any more (mirror.produce.ambiguous.wait.ms)"
	case waitsFor >= 0:
		row.Ext.ErrorMessage = fmt.Sprintf("waits at offset %d for a transaction of the source to end", waitsFor)
	}
	return row
}
