# Sardonyx. `make` alone lists what can be made; everything installs into .venv, once.

PYTHONS = python3 python3.14 python3.13 python3.12 python3.11
BIN = .venv/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check
PYTEST = $(BIN)/python -m pytest

.PHONY: help demo web demos pages npm check test test-all lint system userlands format wheel clean

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.demo ## recognise handwritten digits on every device of this machine
	@$(BIN)/sardonyx demo

web: .venv/.web ## draw digits and drop models in a page of your own browser
	@$(BIN)/python web/demo/app.py

demos: .venv/.test ## fetch and compile what the other pages of make web load (240 MB, once)
	@$(BIN)/python web/demo/demos.py

pages: .venv/.demo ## put the page runtime, Pyodide and this package into build/pages, for any web server
	@$(BIN)/sardonyx web build/pages

npm: ## pack the page runtime as an npm package into build/npm
	@mkdir -p build/npm
	@npm install --silent --no-audit --no-fund --prefix build/npm-tools esbuild@0.24.0 onnxruntime-common@1.30.0
	@node web/pack.mjs build/npm build/npm-tools

check: lint ## lint, type-check and run the quick tests (about five minutes)
	@$(PYTEST) -n 2 -m "not slow and not nightly"

test: system lint ## run everything that a change must pass
	@$(PYTEST) -n 2 -m "not nightly"

test-all: system lint .venv/.exports ## run every test, the long ones too
	@$(PYTEST) -n 2

lint: .venv/.test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

system: .venv/.test
	@$(BIN)/python -m tests.support.system node webgpu browser firefox webkit desktop emulation

userlands: system ## make what a Raspberry Pi has, 32 bits and 64, for the tests (a minute)
	@$(BIN)/python -m tests.edge.userland armhf arm64 trixie

format: .venv/.test ## format the code and sort its imports
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

wheel: .venv/.test ## build the wheel into dist/
	@$(BIN)/python -m build --wheel --no-isolation

clean: ## remove everything that make made
	@rm -rf .venv dist build .*_cache .hypothesis
	@find . -name __pycache__ -prune -exec rm -rf {} +

.venv/.test: pyproject.toml | $(BIN)/python
	@echo "Installing the tests' packages into .venv"
	@$(PIP) install -qq -e '.[test]'
	@touch $@

.venv/.exports: .venv/.test
	@echo "Installing PyTorch and its exporter into .venv"
	@$(PIP) install -qq -e '.[exports]'
	@touch $@

.venv/.demo: pyproject.toml | $(BIN)/python
	@echo "Installing Sardonyx into .venv"
	@$(PIP) install -qq --only-binary :all: -e '.[gpu,wasm,cli]' 2>/dev/null || { \
		$(PIP) install -qq -e . && for extra in gpu wasm cli; do \
			$(PIP) install -qq --only-binary :all: -e ".[$$extra]" 2>/dev/null || \
			echo "Going on without the extra $$extra, which has no wheel for this machine."; \
		done; }
	@touch $@

.venv/.web: pyproject.toml | $(BIN)/python
	@echo "Installing Sardonyx and Flask into .venv"
	@$(PIP) install -qq -e '.[serve]'
	@touch $@

$(BIN)/python:
	@for python in $(PYTHONS); do \
		$$python -c 'import sys; assert sys.version_info >= (3, 11)' 2>/dev/null || continue; \
		$$python -m venv .venv >/dev/null && exit; rm -rf .venv; \
		echo "$$python cannot make a virtual environment; on Debian: apt-get install python3-venv"; exit 1; \
	done; echo "Sardonyx needs Python 3.11 or newer; if it has another name: make PYTHONS=..."; exit 1
