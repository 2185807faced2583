package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kafka-mirror-proxy/testenv"
)

// turns is into how many parts each front's measurement is cut. The fronts take turns, so that
// what else the machine does at the moment falls on all of them.
const turns = 4

func (b *bench) frontRows(ctx context.Context) []frontRow {
	rows, opened := b.openFronts(ctx)
	for turn := range turns {
		fmt.Printf("turn %d of %d ...\n", turn+1, turns)
		for i := range rows {
			if rows[i].Error != "" {
				continue
			}
			if err := b.frontTurn(ctx, opened[i], &rows[i], turn); err != nil {
				rows[i].Error = err.Error()
			}
		}
	}
	for i, f := range opened {
		if f == nil {
			continue
		}
		if err := f.close(); err != nil && rows[i].Error == "" {
			rows[i].Error = err.Error()
		}
	}
	return rows
}

// openFronts makes a row for each front that is asked for. One that cannot be opened has its
// error in the row.
func (b *bench) openFronts(ctx context.Context) (rows []frontRow, opened []*front) {
	for _, kind := range []struct {
		row  string
		open func() (*front, error)
	}{
		{rowNoProxy, func() (*front, error) { return directFront(b.destination), nil }},
		{rowRelay, func() (*front, error) { return relayFront(ctx, b) }},
		{rowProxy, func() (*front, error) { return proxyFront(ctx, b) }},
	} {
		if !b.has(kind.row) {
			continue
		}
		row := frontRow{Name: kind.row}
		f, err := kind.open()
		if err == nil {
			row.Ping, err = ping(f.broker)
		}
		if err != nil {
			row.Error = err.Error()
		}
		rows, opened = append(rows, row), append(opened, f)
	}
	return rows, opened
}

func frontLoad(topic string) load {
	return load{topic: topic, partitions: 8, recordBytes: 1024, batchBytes: 1_000_000}
}

// warmUp lets a broker compile its hot paths, so that its first row is not its worst.
func warmUp(ctx context.Context, k *testenv.Kafka, length time.Duration) error {
	direct, l := directFront(k), frontLoad("warm-up")
	if err := createTopic(ctx, direct, l); err != nil {
		return err
	}
	if _, _, err := measureLoad(ctx, direct, l, min(length, 5*time.Second)); err != nil {
		return err
	}
	if _, err := ping(direct.broker); err != nil {
		return err
	}
	return deleteTopic(ctx, direct, l.topic)
}

// frontTurn measures one turn on a topic of its own and adds it to the row.
func (b *bench) frontTurn(ctx context.Context, f *front, row *frontRow, turn int) error {
	direct, l := directFront(b.destination), frontLoad(fmt.Sprintf("%s-%d", row.Name, turn))
	if err := createTopic(ctx, direct, l); err != nil {
		return err
	}
	produced, consumed, err := measureLoad(ctx, f, l, b.length/turns)
	if err != nil {
		return err
	}
	row.Produce, row.Consume = row.Produce.plus(produced), row.Consume.plus(consumed)
	return deleteTopic(ctx, direct, l.topic)
}

func (b *bench) replicationRows(ctx context.Context) ([]replicationRow, error) {
	source, err := testenv.StartKafka(ctx, brokerConfig())
	if err != nil {
		return nil, err
	}
	defer source.Close()
	if err := warmUp(ctx, source, b.length); err != nil {
		return nil, err
	}
	var rows []replicationRow
	for _, row := range []replicationRow{
		{Name: rowReplicate1KiB, RecordBytes: 1024, BatchBytes: replicationBatchBytes},
		{Name: rowReplicate100B, RecordBytes: smallRecordBytes, BatchBytes: replicationBatchBytes},
		{Name: rowSmallBatches, RecordBytes: smallRecordBytes, BatchBytes: 1 << 10},
	} {
		if !b.has(row.Name) {
			continue
		}
		fmt.Printf("%s ...\n", row.Name)
		if err := b.replicationRow(ctx, source, &row); err != nil {
			row.Error = err.Error()
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (b *bench) replicationRow(ctx context.Context, source *testenv.Kafka, row *replicationRow) (err error) {
	l := load{topic: row.Name, partitions: replicationPartitions, recordBytes: row.RecordBytes, batchBytes: row.BatchBytes}
	length := b.length
	if row.Name == rowSmallBatches {
		length /= 10 // they take long to write
	}
	if _, err := fill(ctx, source, l, length); err != nil {
		return err
	}
	proxy, err := proxyFront(ctx, b)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proxy.close()) }()
	row.measurement, err = measureReplication(ctx, b, proxy, source, l)
	return err
}
