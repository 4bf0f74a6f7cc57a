# Two commands do all the set-up: `make run` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
STORE ?= $(VENV)/sample.db

.DEFAULT_GOAL := help
.PHONY: help install run test check format lint types contracts browser pytest bench heldout screenshots references docs docs-serve clean

help: ## What can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

install: $(STAMP) ## Set up everything in .venv

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Retentive needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 install" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

run: install ## Serve playground, API and MCP on 127.0.0.1:4000, with sample memories
	@$(BIN)/retentive --store $(STORE) serve --samples

test: check ## Everything that CI runs

check: lint types contracts pytest

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: install
	$(BIN)/mypy

contracts: install
	$(BIN)/lint-imports

browser: install ## See to it that there is a Chromium for the tests of the playground
	@$(BIN)/python -m tests.browser.chromium

pytest: install
	-@$(BIN)/python -m tests.browser.chromium
	$(BIN)/pytest

format: install ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(VENV)/.bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,bench]'
	@touch $@

bench: $(VENV)/.bench ## Measure against LanceDB and plain SQL (BENCH='--sizes 10000 100000'), then the service under load
	$(BIN)/python -m bench --no-postgres $(BENCH)
	$(BIN)/python -m bench --only retentive $(BENCH) # on its own: a server that runs beside them slows the others down
	$(BIN)/python -m bench.load $(LOAD)

screenshots: browser ## Make the pictures in docs/images anew
	$(BIN)/python -m tests.browser.screenshots docs/images

references: install ## Write the references of commands and settings from the program
	$(BIN)/python -m tools.references

docs: install ## Build the documents as a site in build/site
	@$(BIN)/python -m tools.website

docs-serve: install ## Show the documents on 127.0.0.1:8000, and follow what is written
	@$(BIN)/python -m tools.website serve

SETS ?=
heldout: install ## Are the default knobs more than a fit? Chosen on half of SETS='DIR DIR', measured on the rest
	$(BIN)/python -m bench.held_out $(SETS)

clean: ## Remove what was installed and cached
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .cache build
