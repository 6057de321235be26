# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: run reproduce swarm docs docs-pictures test test-all soak many lint types clean
.DELETE_ON_ERROR:

# Settings were chosen on seeds 1 to 3; others are shown. Without options, a shift makes four groups.
# What ARGS names replaces what stands here.
FIRST := shifts=permute_labels,none strategies=local,gossip:k=5,federico:k=5,afind+:tuned,friends,oracle seeds=11,12,13,14,15
GIVEN := $(foreach word,$(ARGS),$(firstword $(subst =, ,$(word)))=%)

run: $(VENV)/run.stamp  ## Friends and rivals in two worlds on built-in data; ARGS="peers=12 ..." are config keys
	@echo "Two worlds of handwritten digits: in the first, four hidden groups of peers disagree about"
	@echo "what the digits are called, and no peer is told who is in its group; in the second, all agree."
	$(BIN)/amity compare configs/first.toml $(filter-out $(GIVEN),$(FIRST)) $(ARGS)

swarm: $(VENV)/peers.stamp  ## Eight real peers on this machine, each a process with its own certificate
	$(BIN)/amity swarm $(ARGS)

reproduce: $(VENV)/run.stamp  ## Every table and figure of the paper, at the size of seconds; ARGS="--preset cpu" for hours
	$(BIN)/amity reproduce all $(or $(ARGS),--preset smoke)

docs: $(VENV)/docs.stamp  ## The site, into site/: strict, offline, with search from disk
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

docs-pictures: $(VENV)/docs.stamp  ## The pictures of the pages, anew from real runs (minutes)
	$(BIN)/python tools/pictures.py

# Three test processes on two cores: tests with real peers mostly wait.
test: $(VENV)/test.stamp lint types docs  ## Everything that must hold before a change lands
	AMITY_SITE=$(CURDIR)/site $(BIN)/python -m pytest -n 3 --dist worksteal $(ARGS)

test-all: $(VENV)/test.stamp lint types docs  ## The same with the complete chaos, stranger and fuzz runs (some ten minutes more)
	AMITY_SITE=$(CURDIR)/site $(BIN)/python -m pytest -n 3 --dist worksteal --full $(ARGS)

soak: $(VENV)/test.stamp  ## An hour of faults on eight real peers; ARGS="5 2" for five minutes with seed 2
	$(BIN)/python -m tests.soak $(ARGS)

many: $(VENV)/test.stamp  ## 64 real peers that find their friends, beside the simulator; ARGS="200 8" for 200 peers and 8 rounds
	$(BIN)/python -m tests.many $(ARGS)

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/test.stamp
	$(BIN)/mypy

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Amity needs Python 3.11 or newer; say which: make PYTHON=python3.12"; exit 1; }
	@echo "setting up $(VENV) (once, about a minute)"
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install -e .
	@touch $@

$(VENV)/peers.stamp: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install -e '.[peers]'
	@touch $@ $(VENV)/run.stamp

$(VENV)/docs.stamp: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install -e '.[docs]'
	@touch $@ $(VENV)/run.stamp

$(VENV)/test.stamp: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install -e '.[test]'
	@touch $@ $(VENV)/run.stamp $(VENV)/peers.stamp $(VENV)/docs.stamp

clean:
	rm -rf $(VENV) build dist runs site .mypy_cache .ruff_cache .pytest_cache
