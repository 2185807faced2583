// Package mirrorapi answers the Cluster Mirroring APIs (KIP-1279) on the proxy: it decodes a request, carries the operation
// out on the store and on the two clusters, and encodes the answer. One family of APIs a file.
//
// The bytes are the reference's; its bugs are not (design.md section 4): names, configs and patterns are judged when they
// are given, a mirror that does not exist is an error, and when nothing of a request succeeded its top-level code and
// message say so, because Java clients read nothing else.
//
// Nothing here copies data. Whoever adds a topic leaves behind a destination topic that is proven empty and read-only, and
// a desired state in the store; the replicator, which shares nothing with this package but the store, takes it from there.
package mirrorapi
