// Package testenv is what the tests of every other package stand on: real Kafka brokers from
// Maven, in-process fake clusters (kfake), brokers that follow a script byte for byte, network
// faults, foreign clients, and the small helpers around them.
//
// It is imported by tests and by the mains below testenv only. Everything listens on the
// loopback interface, and everything started is ended by its pid, also when the test process
// is killed. Linux only: it uses the parent-death signal and abstract sockets.
package testenv
