# Every target installs what it needs in .venv and .cache on its first run.
#   make run      a node on 127.0.0.1:9092 with its data in ./data
#   make help     this list
#   make test     lint, types, import directions and the tests in tests/, the last two at once
#   make unit     the tests in tests/ alone (ARGS="-k name")
#   make lint     style and types: make style (ruff), make types (pyright, import-linter)
#   make compat   real clients, Kafka's Java tools and Spark against a node (SIZE_MB=50)
#                 (COMPAT_TESTS=compat_tests/cluster for a part of it)
#   make compat-stalls   the same while its processes are paused at random, as on a busy machine
#   make compat-kafka   the same suite against Apache Kafka 4.3.0, which validates the suite
#   make compat-suites   whole test suites of franz-go, kafka-python and aiokafka, and Kafka's Java
#                 tools, on three nodes (SECONDS=60 ARGS="--server barnabas kafka --suites java");
#                 make compat-franz: those of franz-go alone; make compat-franz-secured: kgo's with
#                 SCRAM over TLS
#   make compat-sarama   sarama's functional tests on five nodes behind toxiproxy, which cuts connections
#                 (as root; ARGS="--server barnabas kafka")
#   make compat-rust   build Rust's client of schema registries, and run its test (2 minutes)
#   make bench    measurements, compared with Apache Kafka when Java and Maven are installed
#   make sim      seeds of the simulated cluster (SECONDS=60), or one seed with its log (SEED=n)
#   make security-mistakes   each mistake planted in authentication or authorization must fail a test
#   make sim-mistakes   search for the planted mistakes of the cluster; make sim-coverage
#   make ladder-short   faults of three nodes under load, each once (minutes)
#   make ladder-secured   the steps of one cluster over SASL_SSL, between the nodes too
#   make ladder   the same repeatedly, beside three Apache Kafka nodes (SECONDS=3600)
#   make ladder-mistakes   mistakes planted in real nodes, which the steps of the ladder must notice
#   make soak-cluster   the ladder's steps shuffled on one cluster (SECONDS=600 SEED=n)
#   make ladder-partitions   10,000 partitions on three nodes, one of which is killed
#   make bench-nodes   `serve --nodes 2` beside one Apache Kafka, fifty producers
#   make bench-security   TLS, logins, ACLs and quotas beside Apache Kafka (ARGS="--rounds 3 --rows tls quotas")
#   make bench-pipeline   jobs beside Kafka Streams and Java's Connect (ARGS="--rounds 3")
#   make bench-state   ways to keep state by key in Spark (ARGS="--keys 100000 --ways native buckets-256")
#   make bench-scale   how cost grows with partitions, connections and bytes (20 GB of disk)
#   make docs     write the generated pages: protocol, configuration, messages, public-names
#   make soak     kills of a node under load (CYCLES=200, or SECONDS=n), power loss at every file
#                 operation, and simulated coordinators (SEEDS=10000)
#   make connect-oracle   100,000 records through our transformations and Java's
#   make sql-cases   ksqlDB's query translation tests, parsed or run (ARGS="--cases DIR --run")
#   make sql-rest-cases   ksqlDB's REST tests, sent to a runner (ARGS="--cases DIR --sample 100")
#   make sql-function-cases  expressions of these tests, evaluated on Spark (ARGS="--cases DIR")
#   make streams-parity   topologies of Kafka Streams beside ours (EXAMPLES=2000 SEED=n)
#   make soak-jdbc   kills of a JDBC sink (ARGS="--cycles 20 --database mariadb")
#   make soak-lake        kills of a job that writes files at its commits (ARGS="--kills 20")
#   make soak-mirror      kills and pauses of a flow: worker, JVM, source, target (KILLS=20 ARGS="--target kafka")
#   make soak-sql         queries of SQL whose runner is killed, compared with SQLite (KILLS=50 ARGS="--seed n")
#   make compat-growth    runners and flows on a local cluster, spark-submit, apps of a new version, and, for
#                 root, a cluster whose hosts share only an object store
#   make compat-delta     a Delta table written by SparkSink, with Delta's libraries from Maven
#   make compat-iceberg   Iceberg and Delta tables of SparkSink and SparkSource, with libraries from Maven
#   make compat-mirror-maker   a properties file runs in MirrorMaker 2 and in barnabas, in turn
#   make soak-pipelines   kills of a job's worker, driver and broker under load, forward, micro-batches,
#                 slices and a sink in turn (SECONDS=600 for each)
#   make registry-soak   three registries killed under load, and simulated instances (SEEDS=10000)
#   make bench-registry  measurements of the schema registry
#   make fuzz     damaged bytes sent to codecs, batches, decompressors, a node and its logins (SECONDS=60)
#   make downloads   fetch what `make compat` needs beside small Python packages
#   make archives    write the archives of classes with which its JVMs start
#   make prepare     both, beside `make test`, which installs the packages of the tests
#   make clean    remove .venv, .cache and the caches of tools

BIN := .venv/bin
RUNTIME := .venv/.installed
DEV := .venv/.installed-dev
SPARK := .venv/.installed-spark
PYSPARK := .cache/pyspark/.fetched
SPARK_PACKAGES := .cache/pyspark/packages
JARS := .cache/kafka/.fetched
FLINK := .cache/flink/.fetched
CONNECTORS := .cache/connectors/.fetched
JDBC_SINK := .cache/jdbc-sink/.fetched
NODE := .cache/node/.fetched
GO := .cache/go/.built
FRANZ := .cache/franz/.built
SARAMA := .cache/sarama/.built
KAFKA_PYTHON := .cache/kafka-python/.fetched
AIOKAFKA := .cache/aiokafka/.fetched
RUST := .cache/rust/.built
MOTO := .cache/moto/.installed
GSSAPI := .cache/gssapi/.built
KERBEROS := .venv/.installed-kerberos
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PIP_ENV := PIP_ROOT_USER_ACTION=ignore
# Prints the directory of installed packages.
PACKAGES := $(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
# Three attempts of a command that fetches: one fault of the network would fail a fresh clone.
FETCH := sh -c 'for pause in 5 20; do "$$@" && exit; \
  echo "failed, again in $$pause s: $$*" >&2; sleep $$pause; done; exec "$$@"' fetch

ARGS ?=
CYCLES ?= 200
SECONDS ?= 60
KILLS ?= 20
# A soak ends after CYCLES, unless SECONDS is given.
SOAK_SECONDS := $(if $(filter-out file,$(origin SECONDS)),--seconds $(SECONDS))
SEEDS ?= 10000
SIZE_MB ?= 50
# More than cores, because some tests wait.
WORKERS ?= 4
COMPAT_TESTS ?= compat_tests
# The tests wait more than they compute; compat_tests/scheduling.py divides them.
COMPAT_WORKERS ?= 5

# Five processes collect the tests, which takes each 6 s of CPU, not 12, when they find the compiled files.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test lint style types unit prepare downloads archives compat compat-stalls compat-kafka compat-rust \
  compat-suites compat-franz compat-franz-secured compat-sarama bench \
  bench-pipeline bench-security bench-state bench-scale docs fuzz soak sim \
  sim-mistakes sim-coverage security-mistakes \
  registry-soak bench-registry connect-oracle sql-cases sql-rest-cases sql-function-cases streams-parity ladder ladder-short ladder-secured ladder-partitions bench-nodes \
  ladder-mistakes soak-cluster soak-jdbc soak-lake soak-mirror soak-sql compat-mirror-maker compat-delta compat-iceberg compat-growth \
  soak-pipelines clean

run: $(RUNTIME)
	$(BIN)/barnabas serve --data ./data --listen 127.0.0.1:9092 $(ARGS)

help:
	@sed -n 's/^#   \{0,1\}//p' $(firstword $(MAKEFILE_LIST))

# Types need one core for a minute, so they are checked while the tests run.
test: style
	$(MAKE) --no-print-directory --output-sync=line -j2 types unit

lint: style types

style: $(DEV)
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .

types: $(DEV)
	$(BIN)/pyright
	$(BIN)/lint-imports

unit: $(DEV)
	$(BIN)/python -m pytest tests -n $(WORKERS) --dist worksteal $(ARGS)

# What .ci/run does beside `make test`, which installs what the archives need.
prepare: downloads
	@until test -e $(DEV); do sleep 1; done
	$(MAKE) --no-print-directory archives

# What `make compat` fetches beside small Python packages. It needs only .venv/bin/python.
downloads: $(SPARK_PACKAGES)/.installed $(JARS) $(FLINK) $(CONNECTORS) $(NODE) $(GO) $(FRANZ) $(GSSAPI) \
  $(KAFKA_PYTHON)

# The archives of classes that JVMs of the tests map. The first JVM that ends writes one; without
# them each start takes three times as long.
archives: $(SPARK_PACKAGES)/.installed $(JARS)
	PYTHONPATH=$(CURDIR)/$(SPARK_PACKAGES) $(BIN)/python -m compat_tests.class_archives

# Code 5: ARGS selects no test.
compat: $(DEV) $(SPARK) $(JARS) $(FLINK) $(CONNECTORS) $(NODE) $(GO) $(FRANZ) $(KAFKA_PYTHON) \
  $(KERBEROS) archives
	$(BIN)/python -m pytest -p no:cacheprovider --size-mb $(SIZE_MB) --module-times \
	  -n $(COMPAT_WORKERS) --dist loadfile --no-loadscope-reorder $(COMPAT_TESTS) $(ARGS) || test $$? -eq 5

compat-stalls: $(DEV)
	$(BIN)/python -m compat_tests.stalls $(MAKE) --no-print-directory compat

compat-kafka: $(DEV) $(SPARK) $(JARS) $(FLINK) $(NODE) $(GO) $(FRANZ) $(KAFKA_PYTHON) $(KERBEROS)
	$(BIN)/python -m pytest compat_tests --server kafka --size-mb $(SIZE_MB) $(ARGS)

compat-suites: $(DEV) $(JARS) $(FRANZ) $(KAFKA_PYTHON) $(AIOKAFKA)
	$(BIN)/python -m compat_tests.clients --seconds $(SECONDS) $(ARGS)

compat-franz: $(DEV) $(JARS) $(FRANZ)
	$(BIN)/python -m compat_tests.clients --suites kgo kadm $(ARGS)

compat-franz-secured: $(DEV) $(JARS) $(FRANZ)
	$(BIN)/python -m compat_tests.clients --suites kgo --secured $(ARGS)

compat-sarama: $(DEV) $(JARS) $(SARAMA)
	$(BIN)/python -m compat_tests.clients.sarama_suite $(ARGS)

compat-rust: $(DEV) $(RUST)
	$(BIN)/python -m pytest compat_tests/test_registry_other_clients.py -k rust $(ARGS)

bench: $(DEV) $(JARS)
	$(BIN)/python -m bench $(ARGS)
	$(BIN)/python -m bench.codecs

bench-pipeline: $(DEV) $(SPARK) $(JARS) $(JDBC_SINK)
	$(BIN)/python -m bench.pipeline $(ARGS)

bench-security: $(DEV) $(JARS)
	$(BIN)/python -m bench.security $(ARGS)

bench-state: $(DEV) $(SPARK)
	$(BIN)/python -m bench.stream_state $(ARGS)

bench-scale: $(DEV)
	$(BIN)/python -m bench.scale $(ARGS)

soak-cluster: $(DEV) $(JARS)
	$(BIN)/python -m compat_tests.cluster.soak $(SOAK_SECONDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

ladder-short: $(DEV) $(JARS)
	$(BIN)/python -m pytest compat_tests/cluster $(ARGS)

ladder-secured: $(DEV) $(JARS)
	$(BIN)/python -m pytest -n0 compat_tests/cluster/test_ladder.py --secured $(ARGS)

ladder-mistakes: $(DEV) $(JARS)
	$(BIN)/python -m compat_tests.cluster.ladder_mistakes $(ARGS)

ladder: $(DEV) $(JARS)
	$(BIN)/python -m bench.cluster --write $(if $(filter-out file,$(origin SECONDS)),--seconds $(SECONDS)) $(ARGS)

ladder-partitions: $(DEV) $(JARS)
	$(BIN)/python -m bench.cluster.partitions --write $(ARGS)

bench-nodes: $(DEV) $(JARS)
	$(BIN)/python -m bench.nodes $(ARGS)

docs: $(DEV)
	$(BIN)/python -m barnabas.cli.protocol_page > docs/reference/protocol.md
	$(BIN)/python -m barnabas.config > docs/configuration.md
	$(BIN)/python -m tests.language.public_names > docs/reference/public-names.md
	$(BIN)/python -m barnabas.pipeline.sql.functions.function_page > docs/reference/sql-functions.md
	$(BIN)/python -m tests.language.messages_page > docs/reference/messages.md

fuzz: $(DEV)
	$(BIN)/python -m compat_tests.fuzz --seconds $(SECONDS) $(ARGS)
	$(BIN)/python -m tests.registry.registry_fuzz --count 100000

soak: $(DEV)
	$(BIN)/python -m tests.crash --cycles $(CYCLES) $(SOAK_SECONDS) $(ARGS)
	BARNABAS_EXAMPLES=1000 $(BIN)/python -m pytest tests/log/test_power_loss.py --timeout 3600
	BARNABAS_SEEDS=$(SEEDS) $(BIN)/python -m pytest tests/coordinator -k simulation \
	  -n $(WORKERS) --timeout 3600

soak-jdbc: $(DEV) $(SPARK)
	$(BIN)/python -m compat_tests.pipeline.jdbc_kills $(ARGS)

soak-lake: $(DEV) $(SPARK)
	$(BIN)/python -m compat_tests.pipeline.lake_kills $(ARGS)

soak-mirror: $(DEV) $(SPARK) $(JARS)
	$(BIN)/python -m compat_tests.pipeline.mirror_kills --kills $(KILLS) $(ARGS)

soak-sql: $(DEV) $(SPARK)
	$(BIN)/python -m compat_tests.pipeline.sql_kills --kills $(KILLS) $(ARGS)

compat-growth: $(DEV) $(SPARK) $(JARS) $(MOTO)
	BARNABAS_GROWTH=1 $(BIN)/python -m pytest compat_tests/pipeline/test_growth.py \
	  compat_tests/pipeline/test_spark_cluster.py \
	  compat_tests/pipeline/test_separate_cluster.py \
	  compat_tests/pipeline/test_mirror.py::test_flow_runs_on_a_cluster_of_spark_without_packages \
	  compat_tests/pipeline/test_mirror_drill.py \
	  compat_tests/pipeline/test_migration.py \
	  compat_tests/pipeline/test_mirror_kills.py $(ARGS)

compat-delta: $(DEV) $(SPARK)
	BARNABAS_DELTA=1 $(BIN)/python -m pytest compat_tests/pipeline/test_delta_tables.py $(ARGS)

compat-iceberg: $(DEV) $(SPARK)
	BARNABAS_ICEBERG=1 $(BIN)/python -m pytest compat_tests/pipeline/test_iceberg_tables.py $(ARGS)

compat-mirror-maker: $(DEV) $(SPARK) $(JARS) $(CONNECTORS)
	BARNABAS_MIRROR_MAKER=1 $(BIN)/python -m pytest -n 0 \
	  compat_tests/pipeline/test_mirror_maker_file.py $(ARGS)

soak-pipelines: $(DEV) $(SPARK)
	$(BIN)/python -m compat_tests.pipeline.soak --seconds $(SECONDS) $(ARGS)

sim: $(DEV)
	PYTHONHASHSEED=0 $(BIN)/python -m barnabas.testing.simulation --seconds $(SECONDS) \
	  $(if $(SEED),--seed $(SEED)) $(ARGS)

connect-oracle: $(DEV) $(JARS)
	BARNABAS_CONNECT_CASES=4000 $(BIN)/python -m pytest \
	  compat_tests/pipeline/test_connect_oracle.py -n $(WORKERS) --timeout 3600

sql-cases: $(SPARK)
	$(BIN)/python -m compat_tests.sql_cases $(ARGS)

sql-rest-cases: $(SPARK)
	$(BIN)/python -m compat_tests.sql_rest_cases $(ARGS)

sql-function-cases: $(SPARK)
	$(BIN)/python -m compat_tests.sql_function_cases $(ARGS)

streams-parity: $(DEV) $(JARS)
	BARNABAS_STREAMS_EXAMPLES=$(or $(EXAMPLES),2000) BARNABAS_STREAMS_SEED=$(or $(SEED),1) \
	  $(BIN)/python -m pytest compat_tests/pipeline/streams_parity/test_streams_parity.py \
	  -n $(WORKERS) --timeout 3600 $(ARGS)

sim-coverage: $(DEV)
	$(BIN)/python -m coverage run --source=src/barnabas/cluster,src/barnabas/coordinator,src/barnabas/server -m tests.simulation.all_seeds $(ARGS)
	$(BIN)/python -m coverage report --skip-covered -m

security-mistakes: $(DEV)
	$(BIN)/python -m tests.security.security_mistakes $(ARGS)

sim-mistakes: $(DEV)
	PYTHONHASHSEED=0 $(BIN)/python -m tests.simulation.mistake_table $(ARGS)

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
	    { echo "$$python has no venv module; install it (Debian: apt install python3-venv)"; exit 1; }; \
	  exec $$python -m venv .venv; \
	done; echo "no Python 3.11 or newer found"; exit 1

$(RUNTIME): requirements.txt pyproject.toml | $(BIN)/python
	$(PIP_ENV) $(PIP) -r requirements.txt -e .
	@$(BIN)/python -m compileall -q src  # pip compiles installed packages, but not editable ones
	@touch $@

# pip compiles with one core, and the packages' own tests as well.
$(DEV): requirements-dev.txt $(RUNTIME)
	$(PIP_ENV) $(PIP) --no-compile -r requirements-dev.txt
	-@$(BIN)/python -m compileall -q -j2 -x /tests/ $$($(PACKAGES))
	@touch $@

# Without a JDK the stamps are not written, so that the next run checks again.
$(SPARK): requirements-spark.txt $(RUNTIME) $(SPARK_PACKAGES)/.installed
	@if test -f $(SPARK_PACKAGES)/.installed; then \
	  echo $(CURDIR)/$(SPARK_PACKAGES) >$$($(PACKAGES))/pyspark.pth && \
	  $(PIP_ENV) $(PIP) -r requirements-spark.txt && touch $@; \
	else echo "java not found (Debian: apt install openjdk-17-jdk): skipping the tests of Spark"; fi

# Beside .venv, which has PySpark after the tests of `tests/`: they must pass without it. Meanwhile a JVM
# writes the archive of its classes, which holds for one path of PySpark's jars.
$(SPARK_PACKAGES)/.installed: $(PYSPARK)
	@rm -rf $(@D)
	@if test -f $(PYSPARK); then \
	  $(PIP_ENV) $(PIP) --no-deps --target $(@D) --find-links $(dir $(PYSPARK)) \
	    $$(grep -E '^(pyspark|py4j)==' requirements-spark.txt) && touch $@; fi

# A server of S3's protocol, in an environment of its own: its libraries are not ours.
$(MOTO):
	@rm -rf $(@D) && $(BIN)/python -m venv $(@D)
	$(PIP_ENV) $(@D)/bin/python -m pip install --quiet --disable-pip-version-check 'moto[s3,server]==5.2.5'
	@touch $@

# PySpark comes as sources of 400 MB of jars: to compress them again takes as long as all the rest.
$(PYSPARK): requirements-spark.txt | $(BIN)/python
	@rm -rf $(@D) && mkdir -p $(@D)
	@if command -v java >/dev/null; then \
	  $(PIP_ENV) $(FETCH) $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps \
	    --config-settings=--build-option=--compression=stored \
	    --wheel-dir $(@D) "$$(grep '^pyspark==' $<)" && touch $@; \
	fi

# gssapi comes as sources, too. Without the headers the stamps are not written.
$(GSSAPI): requirements-kerberos.txt | $(BIN)/python
	@rm -rf $(@D) && mkdir -p $(@D)
	@if command -v krb5-config >/dev/null && command -v gcc >/dev/null; then \
	  CFLAGS=-O0 $(PIP_ENV) $(FETCH) $(BIN)/python -m pip wheel --quiet \
	    --disable-pip-version-check --no-deps --wheel-dir $(@D) -r $< && touch $@; \
	else echo "krb5-config or gcc not found (Debian: apt install libkrb5-dev gcc):" \
	  "skipping the tests of Kerberos"; fi

$(KERBEROS): requirements-kerberos.txt $(RUNTIME) $(GSSAPI)
	@if test -f $(GSSAPI); then \
	  $(PIP_ENV) $(PIP) --no-index --find-links $(dir $(GSSAPI)) -r $< && touch $@; fi

# A separate Maven repository: Spark's resolver fails on one that has POMs without jars. Maven takes half of the CPU
# time without the second compiler of the JVM.
$(JARS): compat_tests/pom.xml
$(FLINK): compat_tests/flink/pom.xml
$(CONNECTORS): compat_tests/connectors/pom.xml
$(JDBC_SINK): bench/jdbc/pom.xml
$(JARS) $(FLINK) $(CONNECTORS) $(JDBC_SINK):
	@if command -v java >/dev/null && command -v mvn >/dev/null; then \
	  rm -rf $(@D) && MAVEN_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC $$MAVEN_OPTS" $(FETCH) mvn -q -B -f $< \
	    -Dmaven.repo.local=$(CURDIR)/.cache/m2 -DoutputDirectory=$(CURDIR)/$(@D)/lib \
	    dependency:copy-dependencies && touch $@; \
	else echo "java or mvn not found (Debian: apt install openjdk-17-jdk maven):" \
	  "skipping what needs the jars of $<"; fi

# Clients of schema registries for Node and Go.
$(NODE): compat_tests/node/package.json
	@if command -v npm >/dev/null; then \
	  mkdir -p $(@D) && cp $< $(@D) && \
	  $(FETCH) npm install --prefix $(@D) --no-audit --no-fund --silent && touch $@; \
	else echo "npm not found (Debian: apt install npm): skipping what needs the clients of $<"; fi

$(GO): $(wildcard compat_tests/go/*)
	@if command -v go >/dev/null; then \
	  mkdir -p $(@D) && (cd compat_tests/go && $(FETCH) go mod download && \
	    go build -o $(CURDIR)/$(@D)/registryclients .) && touch $@; \
	else echo "go not found (Debian: apt install golang): skipping what needs compat_tests/go"; fi

# sarama's functional tests, and the proxy that they need, from the Go module proxy.
$(SARAMA): $(wildcard compat_tests/clients/sarama/*)
	@if command -v go >/dev/null; then \
	  mkdir -p $(@D) && cd compat_tests/clients/sarama && $(FETCH) go mod download && \
	  go build -o $(CURDIR)/$(@D)/toxiproxy github.com/Shopify/toxiproxy/v2/cmd/server && \
	  go test -c -tags functional -o $(CURDIR)/$(@D)/sarama.test github.com/IBM/sarama && \
	  go list -f '{{.Dir}}' github.com/IBM/sarama >$(CURDIR)/$(@D)/sarama.folder && \
	  touch $(CURDIR)/$@; \
	else echo "go not found (Debian: apt install golang): skipping sarama's suite"; fi

# franz-go's own tests, from the Go module proxy, with one change (scram.sed). They run in the folders
# of their sources.
$(FRANZ): $(wildcard compat_tests/clients/franz/*)
	@if command -v go >/dev/null; then \
	  mkdir -p $(@D) && cd compat_tests/clients/franz && \
	  { $(FETCH) go mod download || \
	    { echo "franz-go's modules could not be fetched: check the network, GOPROXY, and go (1.26)"; exit 1; }; } && \
	  built=$(CURDIR)/$(@D) && rm -rf $$built/source $$built/*.test && \
	  cp -r $$(go list -m -f '{{.Dir}}' github.com/twmb/franz-go) $$built/source && \
	  chmod -R u+w $$built/source && sed -i -f scram.sed $$built/source/pkg/kgo/helpers_test.go && \
	  cp go.mod $$built/go.mod && cp go.sum $$built/go.sum && \
	  go mod edit -replace github.com/twmb/franz-go=$$built/source $$built/go.mod && \
	  for package in kgo kadm; do \
	    go test -c -modfile $$built/go.mod -o $$built/$$package.test \
	      github.com/twmb/franz-go/pkg/$$package && \
	    go list -f '{{.Dir}}' github.com/twmb/franz-go/pkg/$$package \
	      >$(CURDIR)/$(@D)/$$package.folder || exit 1; \
	  done && touch $(CURDIR)/$@; \
	else echo "go not found (Debian: apt install golang): skipping the suites of franz-go"; fi

# The tests in the source distribution of the version that the client's own tests have.
$(KAFKA_PYTHON): requirements-dev.txt | $(BIN)/python
	@rm -rf $(@D) && mkdir -p $(@D) && \
	{ $(FETCH) $(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps \
	    --no-binary kafka-python --dest $(@D) "$$(grep '^kafka-python==' $<)" || \
	  { echo "kafka-python could not be fetched: check the network and pip's index"; exit 1; }; } && \
	tar xzf $(@D)/*.tar.gz -C $(@D) --strip-components 1 && rm -rf $(@D)/kafka && touch $@

# aiokafka's tests are in its repository only, so only `make compat-suites` fetches them.
$(AIOKAFKA): requirements-dev.txt
	@rm -rf $(@D) && mkdir -p $(@D) && \
	if git clone --quiet --depth 1 --branch "v$$(sed -n 's/^aiokafka==//p' $<)" \
	    https://github.com/aio-libs/aiokafka $(@D)/sources; then \
	  mv $(@D)/sources/tests $(@D)/tests && rm -rf $(@D)/sources && touch $@; \
	else echo "https://github.com/aio-libs/aiokafka cannot be reached: skipping aiokafka's suite"; fi

# 200 crates: two minutes of two cores, so only `make compat-rust` builds them.
$(RUST): $(wildcard compat_tests/rust/* compat_tests/rust/src/*)
	@if command -v cargo >/dev/null; then \
	  mkdir -p $(@D) && (cd compat_tests/rust && \
	    cargo build --quiet --locked --target-dir $(CURDIR)/$(@D)/target) && touch $@; \
	else echo "cargo not found (https://rustup.rs, Rust 1.88 or newer):" \
	  "skipping what needs compat_tests/rust"; fi
