package acceptance

import (
	"fmt"

	"github.com/IBM/sarama"
)

// saramaReader reads with sarama, in this process: it is Go.
func saramaReader(o readOrder, told chan<- toldByReader, stop <-chan struct{}) error {
	config := sarama.NewConfig()
	config.ClientID = "sarama-reader"
	config.Version = sarama.MaxVersion
	config.Consumer.Return.Errors = true
	if o.isolation == readCommitted {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer([]string{o.bootstrap}, config)
	if err != nil {
		return fmt.Errorf("sarama: %w", err)
	}
	defer consumer.Close()
	start := o.offset
	if o.start != startOffset {
		start = sarama.OffsetOldest
	}
	partition, err := consumer.ConsumePartition(o.topic, 0, start)
	if err != nil {
		return fmt.Errorf("sarama: %w", err)
	}
	defer partition.Close()
	for {
		select {
		case <-stop:
			return nil
		case m := <-partition.Messages():
			told <- toldByReader{Offset: m.Offset, Value: string(m.Value)}
		case err := <-partition.Errors():
			return fmt.Errorf("sarama: %w", err)
		}
	}
}
