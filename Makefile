# Every task of the project, one line each: `make help`.

PYTHON ?=
VENV := .venv
STAMP := $(VENV)/.tidyberg-setup
RUNTIME_STAMP := $(VENV)/.tidyberg-runtime
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.NOTPARALLEL:
# If it is set, each of the hundreds of processes that tests start compiles all imports again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test test-fast test-kill test-replicas test-lambda test-integrations test-long mutants lint format lock build image test-image test-helm lambda-zip docs bench bench-full bench-docs bench-load clean check-java

help: ## list what make can do
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(STAMP) ## create .venv with everything in requirements.lock (by uv, or by pip where uv cannot)

# Redone only when the package definition or the lock changes. $(if …) runs before the slow part and
# ends make with one line.
$(STAMP): pyproject.toml requirements.lock scripts/setup.sh
	$(if $(PYTHON_PROBLEM),$(error $(PYTHON_PROBLEM)))
	@PYTHON="$(PYTHON)" sh scripts/setup.sh "$(VENV)" requirements.lock
	@touch $@ $(RUNTIME_STAMP)

# Without the tools of developers, which are as large as tidyberg itself.
$(RUNTIME_STAMP): pyproject.toml requirements-runtime.lock scripts/setup.sh
	$(if $(PYTHON_PROBLEM),$(error $(PYTHON_PROBLEM)))
	@PYTHON="$(PYTHON)" sh scripts/setup.sh "$(VENV)" requirements-runtime.lock
	@touch $@

demo: check-java $(RUNTIME_STAMP) ## see it work: a messy table is planned, compacted, verified and committed
	@$(BIN)/tidyberg demo

test: check-java lint ## everything that must hold: lint, types, import rules, all tests, branch coverage
	$(BIN)/pytest -n 4 --durations 15 --cov --cov-report=

test-kill: check-java setup ## kill -9 at 475 random moments on the inline engine and 25 on Spark
	TEST_KILLS=475 TEST_SPARK_KILLS=25 $(BIN)/pytest -s --timeout 7200 tests/control/test_kill.py

test-replicas: check-java setup ## 200 jobs on 40 tables, three replicas killed 30 times and stopped 10 times, one on Spark
	TEST_REPLICA_JOBS=200 TEST_REPLICA_TABLES=40 TEST_REPLICA_KILLS=30 TEST_REPLICA_PAUSES=10 \
	  TEST_REPLICA_RESTARTS=10 TEST_REPLICA_SPARK=1 \
	  $(BIN)/pytest -s --timeout 7200 tests/service/test_replicas.py

test-lambda: setup ## kill a Lambda function of 320 MB 100 times while it compacts 2 GB in invocations of 60 seconds
	TEST_LAMBDA_MB=2048 TEST_LAMBDA_KILLS=50 TEST_LAMBDA_SECONDS=60 TEST_LAMBDA_MEMORY=320 TEST_LAMBDA_MODE=encode \
	  $(BIN)/pytest -s --timeout 14400 tests/serverless/test_kill.py

# The same seed draws the same histories, moments and faults again: SEED=… make test-long
# The matrix is the full product, which takes hours. TEST_LONG=1 make test-long takes the layouts in turns.
test-long: SEED := $(or $(SEED),$(shell od -An -N3 -tu4 /dev/urandom | tr -d ' '))
test-long: check-java setup ## soak: 1,000 random histories, 500 kills, more faults, 30,000 random files; prints a seed that repeats it
	@echo "seed $(SEED): SEED=$(SEED) make test-long runs this again"
	TEST_SEED=$(SEED) TEST_LONG=$(or $(TEST_LONG),all) TEST_HISTORIES=1000 TEST_KILLS=475 TEST_SPARK_KILLS=25 TEST_MOMENTS=all \
	  $(BIN)/pytest -n 2 --timeout 14400 --hypothesis-seed=$(SEED) tests/machine tests/deletes tests/control tests/rest tests/faults \
	  tests/matrix tests/fuzzing tests/operator tests/oracle/test_live_writers.py

mutants: setup ## break each rule of the format in a copy of the code: a test must fail for each
	$(BIN)/python -m tests.mutants

test-fast: setup ## only the tests that need no Spark session and no Java
	$(BIN)/pytest -m "not spark and not oracle and not slow"

test-integrations: check-java setup ## the integrations with Airflow, Dagster, dbt and GitHub, in virtual environments of their own
	$(BIN)/python integrations/run_tests.py
	TEST_ACTION=1 $(BIN)/pytest tests/integrations

lint: setup ## ruff, mypy strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## let ruff format the code and fix what it safely can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: setup ## resolve the dependency tree again into requirements.lock
	@sh scripts/lock.sh "$(VENV)"

build: setup ## source distribution and wheel into dist/
	@sh scripts/build.sh "$(VENV)"

image: ## the images iceberg-compaction:latest and tidyberg-operator:latest, with Docker or buildah
	@sh scripts/image.sh service iceberg-compaction:latest
	@sh scripts/image.sh operator tidyberg-operator:latest

test-image: setup ## build the images with buildah, run the service and the operator from them, compact a table on S3
	TEST_IMAGE=1 $(BIN)/pytest -s --timeout 3600 tests/containers

test-helm: setup ## build helm once, then lint, render and validate the chart
	TEST_HELM=1 $(BIN)/pytest tests/deploy

lambda-zip: setup ## build/tidyberg-lambda.zip for AWS Lambda, without Spark; tells its size
	@sh scripts/build-lambda.sh "$(VENV)"

docs: setup ## the documentation site into site/, without warnings and without anything from other hosts
	$(BIN)/mkdocs build --strict

bench: check-java setup ## the core scenarios, about 5 minutes: tidyberg (also on S3), Iceberg's Java action, DuckDB and cp on the same data
	@$(BIN)/python -m benchmarks.run

bench-full: check-java setup ## all scenarios, about half an hour and 10 GB of disk
	@$(BIN)/python -m benchmarks.run --full

bench-docs: setup ## write what was measured into docs/performance.md, docs/internals/performance.md and README.md
	@$(BIN)/python -m benchmarks.publish $(wildcard bench-results/*.json)

bench-load: setup ## 200 submissions a second against a service, on SQLite and on Redis; latencies and memory
	@$(BIN)/python -m benchmarks.load

clean: ## remove the virtual environment, caches, coverage data and built files
	rm -rf $(VENV) .venv-integrations dist build site htmlcov .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache \
	  .import_linter_cache .hypothesis bench-results spark-warehouse
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

check-java:
	@$(if $(JAVA_PROBLEM),$(error $(JAVA_PROBLEM))):

# Recursive on purpose: looked at only when a target needs it.
JAVA_PROBLEM = $(shell sh scripts/check-java.sh)
PYTHON_PROBLEM = $(shell PYTHON="$(PYTHON)" sh scripts/find-python.sh --problem)
