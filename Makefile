# make demo and make test do all the set-up themselves, on a fresh Debian machine too: see scripts/setup.
VENV ?= .venv
BENCH_ARGS ?=
# Tests run in so many processes side by side: those that run Spark too, because it waits for much (its start, its logs).
TEST_PROCESSES ?= 2
# Spark on one machine: a host name that does not resolve must not keep it from starting.
SPARK_LOCAL_IP ?= 127.0.0.1
export VENV SPARK_LOCAL_IP

BIN := $(VENV)/bin
# What Spark starts: the Java that scripts/setup chose (read when a recipe runs, because setup may just have written it)
# and, for its Python workers, this environment's Python instead of the first on PATH.
SPARK_ENV = JAVA_HOME="$$(cat $(VENV)/java-home)" PYSPARK_PYTHON="$(abspath $(BIN)/python)"

.DEFAULT_GOAL := help
.PHONY: help setup wheel demo test check search test-spark bench bench-scheduling bench-queries bench-orders bench-joins bench-aggregates bench-strategies bench-ordering bench-allocation bench-overload bench-api lab docs site chromium pictures clean bench-multiway

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Python, Java and packages: what is missing is installed (demo, test, ... do it themselves)
	@scripts/setup

demo: setup ## a short run with a live table; results in out/demo
	@rm -rf out/demo
	@$(SPARK_ENV) $(BIN)/headrace demo --out out/demo

test: check test-spark ## everything: check, then the tests that run Spark

check: setup chromium ## format, lint, types, fast tests, doctests, generated docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(SPARK_ENV) $(BIN)/pytest -q -n $(TEST_PROCESSES) --dist loadgroup -m "not spark"

search: setup ## the fast tests on more and new random examples, other ones each time (HYPOTHESIS_PROFILE=thorough: many more)
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-search} $(SPARK_ENV) $(BIN)/pytest -q -n $(TEST_PROCESSES) --dist loadgroup -m "not spark"

test-spark: setup chromium ## only the tests that run Spark
	$(SPARK_ENV) $(BIN)/pytest -v -n $(TEST_PROCESSES) --dist loadfile -m spark

bench: setup ## Headrace against Spark's own joins; results in out/bench (BENCH_ARGS=--quick for a small one)
	@$(SPARK_ENV) $(BIN)/python -m benchmarks.bench $(BENCH_ARGS)

bench-scheduling: setup ## LWO, SWF and MQT on Spark under a budget; results in out/scheduling
	@$(SPARK_ENV) $(BIN)/python -m benchmarks.scheduling $(BENCH_ARGS)

bench-queries: setup ## what 7, 100 and 1,000 queries cost on Spark; results in out/bench-queries
	@$(SPARK_ENV) $(BIN)/python -m benchmarks.many_queries $(BENCH_ARGS)

bench-aggregates: setup ## a hundred aggregate queries against one, six against Spark's own; results in out/bench-aggregates
	@$(SPARK_ENV) $(BIN)/python -m benchmarks.aggregates $(BENCH_ARGS)

bench-multiway: setup ## joins of three streams and theta joins on Spark; results in out/bench-multiway
	@$(SPARK_ENV) $(BIN)/python -m benchmarks.multiway $(BENCH_ARGS)

bench-orders: setup ## join orders: the heuristics against the optimum, on 1,000 random sets of parameters
	@$(BIN)/python -m benchmarks.orders $(BENCH_ARGS)

bench-joins: setup ## join orders, scans and indexes of a multi-way join, without Spark; results in out/bench-joins
	@$(BIN)/python -m benchmarks.multijoins $(BENCH_ARGS)

bench-ordering: setup ## Sync-Filter, Filter-Order and Adaptive (paper 004), response times by a real clock; results in out/ordering
	@$(BIN)/python -m benchmarks.ordering $(BENCH_ARGS)

bench-strategies: setup ## operator strategies under bursts (paper 003), in the engine; with BENCH_ARGS=--only-spark on Spark
	@$(SPARK_ENV) $(BIN)/python -m benchmarks.queue_strategies $(BENCH_ARGS)

wheel: setup ## the wheel, in dist; installed into a virtual environment of its own, with its extras, and asked its version and page
	@rm -rf dist build/wheel-venv
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@$(BIN)/python -m venv build/wheel-venv
	@build/wheel-venv/bin/pip install --quiet "$$(ls dist/headrace-*.whl)[kafka,console]"
	@cd build && wheel-venv/bin/python -c 'from headrace.console.web import STATIC; (STATIC / "index.html").read_text()'
	@build/wheel-venv/bin/headrace --version && ls dist

bench-api: setup ## 50 clients of headrace serve add and drop queries for two minutes; results in out/bench-api
	@$(SPARK_ENV) $(BIN)/python -m benchmarks.api_clients $(BENCH_ARGS)

site: setup ## the documentation as a web site, in out/site
	@$(BIN)/mkdocs build --strict --quiet

pictures: setup chromium ## pictures of the console for the documentation, from a short demo: docs/images/console*.png
	@$(SPARK_ENV) $(BIN)/python -m benchmarks.console_pictures

chromium: ## Chromium, for the tests of the console: installed with apt when root, and missing otherwise
	@scripts/chromium

bench-overload: setup ## CPU-limited execution (paper 001): figures 11 to 13 in the engine, DEFER and ADAPT on Spark
	@$(SPARK_ENV) $(BIN)/python -m benchmarks.overload $(BENCH_ARGS)

bench-allocation: setup ## probe allowances (paper 001) on 1,000 random plans, against linear programs; the model's figures
	@$(BIN)/python -m benchmarks.allocation $(BENCH_ARGS)

lab: setup ## all tables and figures of the papers, by the model clock; report in out/lab (LAB_ARGS for other options)
	@$(SPARK_ENV) $(BIN)/headrace lab all --out out/lab $(LAB_ARGS)

docs: setup ## writes docs/settings.md from headrace.config
	@$(BIN)/python -c 'from headrace.config import describe; print(describe(), end="")' > docs/settings.md

clean: ## removes outputs and caches, keeps the virtual environment
	rm -rf out build dist spark-warehouse .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
