# make help lists the targets; each is at most three lines, anything longer is a script.
PYTHON ?=
TENSORFLOW ?= tensorflow
ARGS ?=
BIN = .venv/bin
RUN = PYTHONUNBUFFERED=1 $(BIN)/python

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

setup: ## make the environment in .venv (TENSORFLOW=tensorflow-gpu for a GPU host, PYTHON=... to choose one)
	@PYTHON="$(PYTHON)" TENSORFLOW="$(TENSORFLOW)" scripts/setup.sh

demo: setup ## the main job: broker, coordinator and emulated phones on this machine (ARGS="--help" lists the options)
	@$(RUN) -m simulation demo $(ARGS)

test: setup ## every test that this machine can run
	@$(BIN)/python -m pytest $(ARGS)

test-twin: setup ## what boots virtual devices in QEMU: enrolment, training, power cuts, bad releases
	@$(BIN)/python -m pytest -m twin $(ARGS)

check: setup ## format, lint, types, import contracts, fast tests, doctests
	@scripts/check.sh

agent-tests: setup ## the device side without TensorFlow, on both TFLite runtimes
	@scripts/agent_tests.sh ai-edge-litert && scripts/agent_tests.sh tflite-runtime

fuzz: setup ## a million hostile inputs to every decoder, in .venv-fuzz (ARGS="--runs 10000" for fewer)
	@scripts/fuzz.sh $(ARGS)

bench: setup ## every benchmark
	@$(RUN) -m benchmarks $(ARGS)

clean: ## remove environments and everything generated
	rm -rf .venv .venv-agent-* .venv-fuzz build var *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.PHONY: help setup demo test test-twin check agent-tests fuzz bench clean
