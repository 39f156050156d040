# What there is to do with a checkout.  Everything is set up in .venv, nothing outside is touched; only `make test`,
# when root runs it, installs the Debian packages that its tests use.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: help demo test lint types unit check-fast docs bench clean

help:
	@echo "make demo        the standard IP router over recorded traffic, with a report (no root needed)"
	@echo "make test        style, types and all tests"
	@echo "make check-fast  a quick look, in some seconds"
	@echo "make bench       the benchmarks, as a table"
	@echo "make docs        writes docs/elements, docs/targets.md and docs/examples.md from what they are about"

$(BIN)/python:
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || sh .ci/system python3-venv
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make environments: as root, apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.mezzo: pyproject.toml | $(BIN)/python
	$(PIP) install --editable .
	@touch $@

$(VENV)/.mezzo-test: pyproject.toml | $(BIN)/python
	$(PIP) install --editable '.[test]'
	@touch $@ $(VENV)/.mezzo

demo: $(VENV)/.mezzo
	$(BIN)/python examples/demo.py

test: $(VENV)/.mezzo-test
	@sh .ci/system tshark iproute2 iputils-ping curl tcpdump iperf3 ethtool traceroute libcap2-bin
	@$(MAKE) --no-print-directory --keep-going lint types unit

lint: $(VENV)/.mezzo-test
	$(BIN)/ruff check

types: $(VENV)/.mezzo-test
	$(BIN)/mypy

unit: $(VENV)/.mezzo-test
	$(BIN)/pytest -q

check-fast: $(VENV)/.mezzo-test
	$(BIN)/ruff check
	$(BIN)/pytest -q -x -m 'not slow' tests/test_floors.py tests/tools tests/graph tests/ir tests/wire

docs: $(VENV)/.mezzo
	$(BIN)/mezzo help --write docs/elements
	$(BIN)/mezzo elements --targets --write docs/targets.md
	$(BIN)/python docs/examples.py

bench: $(VENV)/.mezzo
	$(BIN)/mezzo bench

clean:
	rm -rf out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
