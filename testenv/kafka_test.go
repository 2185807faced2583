package testenv

import (
	"testing"
	"time"
)

func TestStartTime(t *testing.T) {
	for _, n := range []int{1, 3} {
		began := time.Now()
		k, err := StartKafka(t.Context(), KafkaConfig{Brokers: n})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d: %v", n, time.Since(began))
		k.Close()
	}
}
