# Every target makes its own .venv. `make demo` and `make test` are all a newcomer needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check lint types imports test-user test-pythons agents test-real accuracy docs docs-check bench soak clean

help: ## what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(DEV_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group dev
	@touch $@

demo: $(STAMP) ## see it work: built-in agents, no key, no model
	@$(BIN)/agentctl demo

test: check ## the short form of all that must hold: three minutes
	$(BIN)/python -m pytest

test-all: check ## all that must hold: every test, on every agent, at full length
	$(BIN)/python -m pytest --whole

check: lint types imports docs-check

lint: $(DEV_STAMP)
	$(BIN)/ruff format --check src tests docs/generate.py
	$(BIN)/ruff check src tests docs/generate.py

types: $(DEV_STAMP)
	$(BIN)/mypy

imports: $(DEV_STAMP)
	$(BIN)/lint-imports --no-logo

test-user: $(DEV_STAMP) ## the tests on processes and rights as an ordinary user; TESTS=tests/law for some
	$(BIN)/python -m tests.user.run $(TESTS)

test-pythons: $(DEV_STAMP) ## the unit tests on Python 3.12 to 3.14, as far as there are any; PYTHONS=3.14 for one
	$(BIN)/python -m tests.pythons.run $(PYTHONS) -- $(TESTS)

agents: $(STAMP) ## the real agents, pinned, from npm into .agents/ (1.6 GB)
	$(BIN)/python -m tests.real.install $(AGENT)

accuracy: $(DEV_STAMP) ## how often we are right, on the real agents: docs/accuracy.md
	$(BIN)/python -m tests.real.accuracy.run $(AGENT)

test-real: $(DEV_STAMP) ## the suite on the real agents, offline; AGENT=codex for one
	$(BIN)/python -m tests.real.run $(AGENT)

docs: $(DEV_STAMP) ## write the generated pages
	$(BIN)/python docs/generate.py

docs-check: $(DEV_STAMP)
	$(BIN)/python docs/generate.py --check

bench: $(DEV_STAMP) ## the numbers, as ratios to a floor of the same run
	$(BIN)/python -m tests.bench.run

SECONDS ?= 1800
soak: $(DEV_STAMP) ## half an hour of trouble for the daemon, and all accounted for; SECONDS=600 for less
	$(BIN)/python -m tests.soak.run --seconds $(SECONDS) $(SOAK)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
