# Everything a developer or CI runs. The two that a new user needs: make demo, make test.

GO ?= go
LINT_VERSION := v2.15.0
SEED ?= 1
CASES ?= 5000

# Said first and last, since go test does not show why a test was skipped.
NO_KAFKA := for tool in java mvn; do command -v $$tool >/dev/null || \
	echo "*** $$tool IS MISSING: THE TESTS ON REAL KAFKA ARE SKIPPED ***"; done

.PHONY: build demo test test-race lint bench bench-go acceptance matrix clients sim exact leading owners fuzz fmt

build: ## the two programs, into bin/
	$(GO) build -o bin/ ./cmd/kafka-mirror-proxy ./cmd/kafka-mirrors

demo: ## a stock cluster becomes a mirror destination, told as a story (KAFKA=1: on real clusters)
	$(GO) run ./testenv/demo $(if $(KAFKA),--kafka)

test: ## everything, on real Kafka where Java and Maven are there
	@$(NO_KAFKA)
	$(GO) vet ./...
	$(GO) test -timeout 25m ./...
	@$(NO_KAFKA)

test-race:
	$(GO) test -race -timeout 25m ./...

lint:
	test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION) run

bench: bench-go ## frame path and batch rewrite, then end to end on real Kafka, first rows without the proxy
	$(GO) run ./testenv/bench

bench-go:
	$(GO) test -run '^$$' -bench . -benchmem ./protocol/... ./proxy/... ./replicate/...

acceptance: ## the long acceptance run: hostile producers, kill -9, restarts, verify (minutes)
	KMP_REQUIRE_KAFKA=1 KMP_LONG=1 KMP_SEED=$(SEED) $(GO) test -count=1 -v -timeout 60m ./testenv/acceptance

matrix: ## mirroring between all versions of Kafka that are supported (tens of minutes)
	KMP_REQUIRE_KAFKA=1 KMP_LONG=1 KMP_SEED=$(SEED) $(GO) test -count=1 -v -timeout 90m -run '^(TestMatrix|TestOldFormats)$$' ./testenv/acceptance

clients: ## every client library reads mirrors full of filler by way of the proxy (minutes)
	KMP_REQUIRE_KAFKA=1 KMP_LONG=1 $(GO) test -count=1 -v -timeout 40m -run 'FillerIsInvisible$$' ./testenv/acceptance

sim: ## the replicator in virtual time against simulated clusters: thousands of cases with seeded faults (seconds to minutes)
	KMP_SEED=$(SEED) KMP_SIM_CASES=$(CASES) $(GO) test -count=1 -v -timeout 60m -run '^TestSimulator$$' ./testenv/sim

exact: ## 200 random logs of a seed, mirrored while the proxy is killed, and compared (minutes)
	KMP_REQUIRE_KAFKA=1 KMP_LONG=1 KMP_SEED=$(SEED) $(GO) test -count=1 -v -timeout 40m -run TestExactLogs ./testenv/acceptance

leading: ## a source log that starts at offset 1,000,000,000: time, bytes and memory of the fill (minutes, 2.5 GB of disk)
	KMP_REQUIRE_KAFKA=1 KMP_LONG=1 $(GO) test -count=1 -v -timeout 40m -run '^TestLeadingOffsets$$' ./testenv/acceptance

owners: ## two owners copy the same partitions at once and are frozen in turn, with old and recent timestamps (minutes)
	KMP_REQUIRE_KAFKA=1 KMP_LONG=1 KMP_SEED=$(SEED) $(GO) test -count=1 -v -timeout 40m -run '^TestTwoOwnersReal$$' ./replicate

fuzz: ## each fuzz target for a while
	@for p in $$($(GO) list ./protocol/... ./proxy/...); do for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
		$(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime 30s $$p || exit 1; done; done

fmt:
	gofmt -w .
