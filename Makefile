# make help lists the targets; each is at most three lines, anything longer is a script.
PYTHON ?=
TENSORFLOW ?= tensorflow
ARGS ?=
BIN = .venv/bin
RUN = PYTHONUNBUFFERED=1 $(BIN)/python
# Containers often switch it on; then each of the thousands of processes that tests start compiles everything again.
export PYTHONDONTWRITEBYTECODE =
# More than two processes: most tests wait for a broker, a browser or a process of their own.
SIDE_BY_SIDE = -n 4 --dist loadgroup --no-loadscope-reorder

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

setup: ## make the environment in .venv (TENSORFLOW=tensorflow-gpu for a GPU host, PYTHON=... to choose one)
	@PYTHON="$(PYTHON)" TENSORFLOW="$(TENSORFLOW)" scripts/setup.sh

demo: setup ## the main job: broker, coordinator and emulated phones on this machine (ARGS="--help" lists the options)
	@$(RUN) -m nightjar.simulation demo $(ARGS)

test: setup ## all but the long tests, side by side: 10 to 15 minutes on two cores (ARGS="-n 0" for one after another)
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(ARGS)

test-long: setup ## the tests that take long
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE) -n 3 -m "long and not twin" $(ARGS)

verify: setup ## what takes longer than CI may: pages followed from nothing, whole years, clusters
	@scripts/verify.sh $(ARGS)

test-trixie: setup ## the fast tests on Debian trixie
	@scripts/trixie_tests.sh $(ARGS)

test-twin: setup ## what boots virtual devices in QEMU: enrolment, training, power cuts, releases over the air
	@$(BIN)/python -m pytest -m twin $(ARGS)

check: setup ## format, lint, types, import contracts, doctests, tests of the decisions: before each commit, a minute
	@scripts/check.sh

agent-tests: setup ## the device side without TensorFlow, on both TFLite runtimes
	@scripts/agent_tests.sh $(ARGS)

fuzz: setup ## a million hostile inputs to every decoder, in .venv-fuzz (ARGS="--runs 10000" for fewer)
	@scripts/fuzz.sh $(ARGS)

bench: setup ## every benchmark
	@$(RUN) -m nightjar.benchmarks $(ARGS)

experiments: setup ## the short form of every page of experiments, two side by side (ARGS="--data FOLDER" names the data sets)
	@$(RUN) -m nightjar.experiments --form short --jobs 2 $(ARGS)

lock: setup ## renew the pinned packages with their hashes in requirements/locks
	@scripts/lock.sh

clean: ## remove environments and everything generated
	rm -rf .venv .venv-agent-* .venv-fuzz build var *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.PHONY: help setup demo test test-long verify test-trixie test-twin check agent-tests fuzz bench experiments lock clean
