# Every target sets up what it needs in .venv and .cache on first use; a second run is quick.
#   make run      a node on 127.0.0.1:9092 with its data in ./data
#   make test     lint, types, import directions and the tests in tests/
#   make compat   real clients, Kafka's Java tools and Spark against a node (SIZE_MB=50)
#   make compat-kafka   the same suite against Apache Kafka 4.3.0, which certifies the suite
#   make bench    figures, beside Apache Kafka where Java and Maven are there
#   make bench-scale   how cost grows with partitions, connections and bytes (20 GB of disk)
#   make docs     write the pages that are generated: docs/protocol.md, docs/configuration.md
#   make soak     a node killed under load (CYCLES=200, or SECONDS=n of it), every loss of power, and
#                 simulated coordinators (SEEDS=10000)
#   make registry-soak   three registries killed under load, and simulated instances (SEEDS=10000)
#   make bench-registry  figures of the schema registry
#   make fuzz     damaged bytes against codecs, batches, decompressors and a node (SECONDS=60)

BIN := .venv/bin
RUNTIME := .venv/.installed
DEV := .venv/.installed-dev
SPARK := .venv/.installed-spark
JARS := .cache/kafka/.fetched
FLINK := .cache/flink/.fetched
NODE := .cache/node/.fetched
GO := .cache/go/.built
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PIP_ENV := PIP_ROOT_USER_ACTION=ignore

ARGS ?=
CYCLES ?= 200
SECONDS ?= 60
# A soak ends by its cycles, unless it is given seconds.
SOAK_SECONDS := $(if $(filter-out file,$(origin SECONDS)),--seconds $(SECONDS))
SEEDS ?= 10000
SIZE_MB ?= 50
WORKERS ?= 2

.PHONY: run test lint unit compat compat-kafka bench bench-scale docs fuzz soak registry-soak bench-registry clean

run: $(RUNTIME)
	$(BIN)/barnabas serve --data ./data --listen 127.0.0.1:9092 $(ARGS)

test: lint unit

lint: $(DEV)
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

unit: $(DEV)
	$(BIN)/python -m pytest tests -n $(WORKERS) $(ARGS)

compat: $(DEV) $(SPARK) $(JARS) $(FLINK) $(NODE) $(GO)
	$(BIN)/python -m pytest compat_tests --size-mb $(SIZE_MB) $(ARGS)

compat-kafka: $(DEV) $(SPARK) $(JARS) $(FLINK) $(NODE) $(GO)
	$(BIN)/python -m pytest compat_tests --server kafka --size-mb $(SIZE_MB) $(ARGS)

bench: $(DEV) $(JARS)
	$(BIN)/python -m bench $(ARGS)
	$(BIN)/python -m bench.codecs

bench-scale: $(DEV)
	$(BIN)/python -m bench.scale $(ARGS)

docs: $(DEV)
	$(BIN)/python -m barnabas.cli.protocol_page > docs/protocol.md
	$(BIN)/python -m barnabas.config > docs/configuration.md

fuzz: $(DEV)
	$(BIN)/python -m compat_tests.fuzz --seconds $(SECONDS) $(ARGS)
	$(BIN)/python -m tests.registry.registry_fuzz --count 100000

soak: $(DEV)
	$(BIN)/python -m tests.crash --cycles $(CYCLES) $(SOAK_SECONDS) $(ARGS)
	BARNABAS_EXAMPLES=1000 $(BIN)/python -m pytest tests/log/test_power_loss.py --timeout 3600
	BARNABAS_SEEDS=$(SEEDS) $(BIN)/python -m pytest tests/coordinator -k simulation \
	  -n $(WORKERS) --timeout 3600

registry-soak: $(DEV)
	$(BIN)/python -m compat_tests.registry_instances --seconds 60 --every 1 $(ARGS)
	$(BIN)/python -m compat_tests.registry_instances --seconds 300 --every 15 $(ARGS)
	BARNABAS_SEEDS=$(SEEDS) $(BIN)/python -m pytest tests/registry/service -k simulation \
	  -n $(WORKERS) --timeout 3600

bench-registry: $(DEV)
	$(BIN)/python -m bench.registry $(ARGS)

clean:
	rm -rf .venv .cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist

$(BIN)/python:
	@for python in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
	  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	  $$python -c 'import ensurepip, venv' 2>/dev/null || \
	    { echo "$$python has no venv module: install it (Debian: apt install python3-venv)"; exit 1; }; \
	  exec $$python -m venv .venv; \
	done; echo "Python 3.11 or newer is needed, and none was found"; exit 1

$(RUNTIME): requirements.txt pyproject.toml | $(BIN)/python
	$(PIP_ENV) $(PIP) -r requirements.txt -e .
	@$(BIN)/python -m compileall -q src  # as pip does with all but what is editable
	@touch $@

$(DEV): requirements-dev.txt $(RUNTIME)
	$(PIP_ENV) $(PIP) -r requirements-dev.txt
	@touch $@

# Without a JDK the stamp is not made, so that the next run looks again.
$(SPARK): requirements-spark.txt $(RUNTIME)
	@if command -v java >/dev/null; then \
	  $(PIP_ENV) $(PIP) -r requirements-spark.txt && touch $@; \
	else echo "java is missing (Debian: apt install openjdk-17-jdk): Spark's tests are left out"; fi

# Maven keeps a repository of its own here: Spark's resolver trips over one that holds POMs alone.
$(JARS): compat_tests/pom.xml
$(FLINK): compat_tests/flink/pom.xml
$(JARS) $(FLINK):
	@if command -v java >/dev/null && command -v mvn >/dev/null; then \
	  rm -rf $(@D) && mvn -q -B -f $< \
	    -Dmaven.repo.local=$(CURDIR)/.cache/m2 -DoutputDirectory=$(CURDIR)/$(@D)/lib \
	    dependency:copy-dependencies && touch $@; \
	else echo "java or mvn is missing (Debian: apt install openjdk-17-jdk maven):" \
	  "what needs the jars of $< is left out"; fi

# Clients of schema registries for Node and Go.
$(NODE): compat_tests/node/package.json
	@if command -v npm >/dev/null; then \
	  mkdir -p $(@D) && cp $< $(@D) && \
	  npm install --prefix $(@D) --no-audit --no-fund --silent && touch $@; \
	else echo "npm is missing (Debian: apt install npm): what needs the clients of $< is left out"; fi

$(GO): $(wildcard compat_tests/go/*)
	@if command -v go >/dev/null; then \
	  mkdir -p $(@D) && (cd compat_tests/go && go build -o $(CURDIR)/$(@D)/registryclients .) && \
	  touch $@; \
	else echo "go is missing (Debian: apt install golang): what needs compat_tests/go is left out"; fi
