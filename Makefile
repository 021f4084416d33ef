# `make run` and `make test` are all that a fresh machine needs: each makes .venv and installs what it uses.

.DEFAULT_GOAL := help
.PHONY: help setup run demo test test-e2e pictures bench lint vendor browser clients clean

# A program starts in three quarters of the time where what Python compiled is kept.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready
READY_DEV := $(VENV)/.ready-dev

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

run: $(READY) ## start proxy, inspector and dashboard
	@$(VENV)/bin/mitmemory run

demo: $(READY) ## show it on the sample vault, with a scripted model
	@$(VENV)/bin/mitmemory demo

setup: $(READY_DEV) ## make .venv with everything the other targets need

test: $(READY_DEV) browser ## the tests, but for those with clients from npm
	$(VENV)/bin/pytest -m "not e2e" -n auto --maxprocesses 4 --dist loadfile

test-e2e: $(READY_DEV) clients ## the tests with real clients from npm
	$(VENV)/bin/pytest -m e2e

pictures: $(READY_DEV) browser ## take the pictures of the documentation anew
	MITMEMORY_PICTURES=1 $(VENV)/bin/pytest tests/web/browser/test_demo.py
	$(PYTHON) -m tests.web.browser.pictures docs/pictures

bench: $(READY_DEV) ## the figures, each beside its goal and its baseline
	$(PYTHON) -m tests.bench

lint: $(READY_DEV) ## style, types, and who may import whom
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

vendor: ## bundle the pages' libraries anew (maintainers; needs node)
	cd web && npm ci && npm run vendor

# Python 3.12 or newer: what .python-version names through pyenv, else one on the PATH, else uv's.
$(PYTHON):
	@set -e; \
	for candidate in python3.12 python3.13 python3.14 python3 python; do \
	  if command -v $$candidate >/dev/null 2>&1 && \
	     $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; then \
	    echo "Making $(VENV) with $$($$candidate --version)"; \
	    $$candidate -m venv $(VENV) || { rm -rf $(VENV); exit 1; }; exit 0; \
	  fi; \
	done; \
	if command -v uv >/dev/null 2>&1; then exec uv venv --seed --python 3.12 $(VENV); fi; \
	echo "mitmemory needs Python 3.12 or newer: install python3.12 (or uv) and try again." >&2; exit 1

$(READY): $(PYTHON) pyproject.toml constraints.txt hatch_build.py $(wildcard memory/_native*.[ch])
	@echo "Installing mitmemory into $(VENV)"
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	@touch $@

$(READY_DEV): $(READY)
	@echo "Installing what tests and linters use"
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check "pip>=25.1"
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --group dev
	@touch $@

# The browser tests use the system's Chromium; on Debian it is installed if that needs nobody's password.
browser:
	@if command -v chromium chromium-browser google-chrome >/dev/null 2>&1; then :; \
	elif command -v apt-get >/dev/null 2>&1 && [ "$$(id -u)" = 0 ]; then \
	  echo "Installing Chromium for the browser tests"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium >/dev/null; \
	else echo "No Chromium here: the browser tests will fail. Install it (Debian: apt-get install chromium)." >&2; fi

clients: tests/e2e/clients/node_modules/.ready

tests/e2e/clients/node_modules/.ready: tests/e2e/clients/package-lock.json
	cd tests/e2e/clients && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

clean: ## remove .venv and what the clients installed
	rm -rf $(VENV) tests/e2e/clients/node_modules web/node_modules
