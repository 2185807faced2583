// Package connect turns Kafka client configs (their Java names) into connections: options for
// a kgo client, and a dialer for connections that speak the protocol by themselves.
package connect
