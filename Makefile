PYTHON ?= python3
BIN := .venv/bin

OPENPI := .interop/openpi

.PHONY: setup test test-all check format docs demo demo-quick bench clean

setup: .venv/.installed
	@$(BIN)/python tools/headless_gl.py
	@$(BIN)/python tools/browser.py

.venv/.installed: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(OPENPI)/.installed: tools/openpi_client.txt
	@if $(PYTHON) -c 'import sys; sys.exit(sys.version_info >= (3, 13))'; then \
		$(PYTHON) -m venv --clear $(OPENPI) && \
		$(OPENPI)/bin/python -m pip install --quiet --requirement $< && touch $@; \
	else \
		echo "openpi's client has no numpy for this Python: its test is skipped; 'make PYTHON=python3.12' runs it"; \
	fi

test: setup $(OPENPI)/.installed
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# As `test`, with the arguments and results of every call checked, and more kills.
test-all: export EGORECOVERY_THOROUGH = 1
test-all: export EGORECOVERY_KILLS = 30
test-all: export EGORECOVERY_RECORDER_KILLS = 20
test-all: test

check: .venv/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports

format: .venv/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "the site is in site/; to read it with its search: $(BIN)/python -m http.server --directory site 8001"

demo: setup
	$(BIN)/egorecovery demo

demo-quick: setup
	$(BIN)/egorecovery demo --quick

bench: .venv/.installed
	$(BIN)/python benchmarks/store.py
	$(BIN)/python benchmarks/label.py

clean:
	rm -rf .venv .interop runs build dist site .pytest_cache .hypothesis .ruff_cache .import_linter_cache
