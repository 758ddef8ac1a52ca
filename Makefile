# Everything Hasse needs lives in $(VENV): no target touches the system's Python.
# Each line `target: ## text` is documented by `make help`.

SHELL := /bin/sh
.DEFAULT_GOAL := help

HOST ?= 127.0.0.1
PORT ?= 8000
VENV ?= .venv
ARGS ?=
PIP_FLAGS ?=
SEED ?= 0
COUNT ?= 100

# The first Python that is 3.11 or newer and able to make a virtual environment.
# Debian's own python3 can lack the venv module, so a name alone proves nothing.
PYTHON ?= $(shell for name in python3 python python3.13 python3.12 python3.11 python3.14; do \
	"$$name" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
	>/dev/null 2>&1 && { echo "$$name"; break; }; done)

RUN := $(VENV)/bin/python
# In the order of folders, so that files which share a browser or a service follow each other.
# Where eatmydata is installed no test waits for the disk: tests kill processes, not machines.
PYTEST := $(shell command -v eatmydata) $(RUN) -m pytest --numprocesses auto --maxprocesses 8 \
	--dist loadfile --no-loadscope-reorder --max-worker-restart 0
# Tests start many processes: compiled modules are kept, whatever the shell says.
unexport PYTHONDONTWRITEBYTECODE
READY := $(VENV)/.ready
READY_DEV := $(VENV)/.ready-dev

# A copied or moved checkout, or one whose Python has gone, must not pass for ready:
# the stamp holds the path it was made for, and the interpreter has to start.
STALE := $(shell [ "$$(cat $(READY) 2>/dev/null)" = "$(CURDIR)" ] \
	&& $(RUN) -c 'import typer' >/dev/null 2>&1 || echo stale)

.PHONY: help demo test test-all test-core weight lint types format train-scenes load soak chaos attack fuzz coverage docs dist paired lock sbom licences setup clean stale
$(if $(STALE),$(eval $(READY): stale))

help: ## Show this list
	@echo "Hasse: search images by what is true of them."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  Settings: HOST=$(HOST) PORT=$(PORT) VENV=$(VENV) PYTHON=$(PYTHON)"
	@echo "            ARGS=... goes to pytest or 'hasse demo', PIP_FLAGS=... to pip"

demo: $(READY) ## Set up if need be, then serve the built-in collection (HOST, PORT)
	@$(RUN) -m hasse demo --host $(HOST) --port $(PORT) $(ARGS)

test: $(READY_DEV) ## Set up if need be, then run the tests, but for slow ones (ARGS="-k words")
	@$(PYTEST) -m "not slow" --hypothesis-profile quick $(ARGS)

test-all: $(READY_DEV) ## Run all tests, also the slow ones, as .ci/run does
	@$(PYTEST) $(ARGS)

# Small models, which only torch can make, are made before. In an environment of its own.
CORE := $(VENV)-core
CORE_TESTS = tests/models tests/index tests/hasse \
	$(addprefix tests/service/,cli core questions writing)
test-core: $(READY_DEV) ## Run quick tests of the core in an environment without PyTorch
	@$(RUN) -m tests.tiny $(CORE)/models
	@$(CORE)/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(CORE)
	@$(CORE)/bin/python -m pip install --disable-pip-version-check --quiet $(PIP_FLAGS) \
		-c constraints.txt -e ".[clip,heic,mcp,ocr,raw]" \
		hypothesis onnx pytest pytest-timeout pytest-xdist pyyaml
	@! $(CORE)/bin/python -c 'import torch' 2>/dev/null
	@env -u HASSE_TEST_POSTGRESQL -u HASSE_REQUIRE_POSTGRESQL HASSE_TEST_MODELS=$(CORE)/models \
		$(CORE)/bin/python -m pytest --numprocesses auto \
		--maxprocesses 8 --dist loadfile --no-loadscope-reorder --hypothesis-profile quick \
		-m "not slow and not browser and not torch" $(CORE_TESTS) $(ARGS)

# Also measures the processes that tests start.
coverage: $(READY_DEV) ## Run the quick tests; print coverage of lines and branches, lowest first
	@$(RUN) -m coverage erase
	@$(RUN) -m coverage run -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile \
		--no-loadscope-reorder -m "not slow" --hypothesis-profile quick $(ARGS); status=$$?; \
		$(RUN) -m coverage combine --quiet && $(RUN) -m coverage report; exit $$status

docs: $(READY_DEV) ## Build the docs as a site, strictly, into site/
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --quiet
	@echo "site/index.html"

lint: $(READY_DEV) ## Check style and formatting
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .

types: $(READY_DEV) ## Check types, strictly
	@$(RUN) -m mypy hasse tests benchmarks docs/draw.py docs/hooks.py docker/sbom.py

format: $(READY_DEV) ## Rewrite the code in the house format
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .

train-scenes: $(READY) ## Train the built-in model again, as it was made (ARGS="--device cuda")
	@$(RUN) -m hasse lab data import scenes --out data/scenes
	@$(RUN) -m hasse lab train data/scenes --recipe scenes --out data/models/first/scenes $(ARGS)
	@$(RUN) -m hasse lab train data/scenes --recipe scenes --start data/models/first/scenes \
		--epochs 5 --learning-rate 1e-3 --seed 1 --set warm_up=100 --set entailment=0.5 \
		--out data/models/scenes $(ARGS)

# What the service promises under load, faults and time: docs/reliability.md has the results.
load: $(READY_DEV) ## Measure throughput with and without batches, overload, and searches by text (ARGS="--seconds 10")
	@status=0; for program in throughput overload; do \
	  $(RUN) -m benchmarks.reliability.$$program data/reliability $(ARGS) || status=1; \
	done; $(RUN) -m benchmarks.search.text data/reliability/texts || status=1; exit $$status

soak: $(READY_DEV) ## Ask 100,000 times and look for anything that grows (ARGS="--requests 10000")
	@$(RUN) -m benchmarks.reliability.soak data/reliability $(ARGS)

chaos: $(READY_DEV) ## Stop, swap, rotate keys, kill and fill the disk, SEED and COUNT times at each
	@$(RUN) -m benchmarks.reliability.stop data/reliability
	@$(RUN) -m benchmarks.reliability.swaps data/reliability
	@$(RUN) -m benchmarks.reliability.backup data/reliability
	@$(RUN) -m benchmarks.reliability.rotation data/reliability
	@$(RUN) -m benchmarks.reliability.crashes --seed $(SEED) --count $(COUNT)
	@$(RUN) -m tests.service.writing.folders.histories data/reliability/histories $(SEED) $(COUNT)

attack: $(READY_DEV) ## Attack a service in many ways and ask as others do (ARGS="--seconds 20")
	@$(RUN) -m benchmarks.reliability.attack data/reliability $(ARGS)

fuzz: $(READY_DEV) ## Send all that is hostile, then bytes changed at random (ARGS="--seconds 600")
	@$(RUN) -m benchmarks.reliability.hostile data/reliability
	@$(RUN) -m benchmarks.reliability.fuzz $(ARGS)

weight: ## Print files, lines and public names of each floor
	@$(PYTHON) -m benchmarks.weight

paired: $(READY_DEV) ## Print what commands cost beside the last release
	@$(RUN) -m benchmarks.history.paired

dist: $(READY_DEV) ## Build the sdist, and the wheel from it, into dist/
	@rm -rf dist
	@$(RUN) -m build --no-isolation --outdir dist .

# Every file of every version that is installed, by its SHA-256, for all platforms and Pythons:
# without extras, for a GPU, and with all of them. Tools of development are pinned by version alone.
EXTRAS = $(shell $(RUN) -c "import tomllib; print(*sorted(tomllib.load(open('pyproject.toml', 'rb'))\
	['project']['optional-dependencies'].keys() - {'dev'}))")
lock: $(READY_DEV) ## Write requirements/ anew from pyproject.toml and constraints.txt
	@for set in base "gpu --extra gpu" "all $(EXTRAS:%=--extra %)"; do \
		set -- $$set; name=$$1; shift; \
		$(RUN) -m uv pip compile pyproject.toml "$$@" --constraints constraints.txt --universal \
			--python-version 3.11.0 --generate-hashes --no-annotate --no-header --quiet \
			--output-file requirements/$$name.txt || exit 1; \
	done

sbom: $(READY) ## List what is installed for Hasse as CycloneDX (ARGS="heic raw": with extras)
	@$(RUN) docker/sbom.py $(ARGS)

licences: $(READY) ## List the licence of each package that Hasse needs (ARGS="heic raw")
	@$(RUN) docker/sbom.py --licences $(ARGS)

setup: $(READY_DEV) ## Only set up: the virtual environment with everything in it

clean: ## Remove the virtual environment and caches; data/ stays
	rm -rf $(VENV) $(CORE) build dist site *.egg-info src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

stale:

$(READY): pyproject.toml constraints.txt
	@[ -n "$(PYTHON)" ] || { echo "error: Hasse needs Python 3.11 or newer with the venv module:" \
		"install it (on Debian: apt-get install python3 python3-venv)" \
		"or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
		>/dev/null 2>&1 || { echo "error: $(PYTHON) is not a Python 3.11 or newer with the" \
		"venv module: name another with make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Setting up $(VENV) with $$($(PYTHON) --version)"
	@$(RUN) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(RUN) -m pip install --disable-pip-version-check $(PIP_FLAGS) -c constraints.txt -e .
	@echo "$(CURDIR)" > $@

$(READY_DEV): $(READY)
	@echo "Adding what tests and trainings need: PyTorch and its libraries take a few minutes."
	@$(RUN) -m pip install --disable-pip-version-check $(PIP_FLAGS) -c constraints.txt -e ".[dev]"
	@# Its own command line, which no test uses, needs an older typer.
	@$(RUN) -m pip install --disable-pip-version-check $(PIP_FLAGS) -c constraints.txt --no-deps \
		openapi-python-client
	@touch $@
