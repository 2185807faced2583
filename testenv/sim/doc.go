// Package sim runs the real replicator in virtual time (testing/synctest) between two simulated clusters, in thousands of
// cases with seeded faults, and checks that the destination holds the source's records at the source's offsets.
//
// What is real: replicate.Replicator with all below it (runners, fetchers, translator, produce engine, lanes), franz-go, the
// state's reducer. What is simulated: the brokers (the few APIs that replication uses, with the sequence check, the producer
// expiry and the elections of Kafka 4.3 as they were measured), the network, and the state topic, which is a state.Memory that
// all owners share.
//
// A seed fixes the case: the topic, the faults, their rates, what happens when. It does not fix which goroutine runs first:
// a case that fails once in ten runs of its seed has found a race.
package sim
