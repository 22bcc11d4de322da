PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup test check format demo bench clean

setup: .venv/.installed
	@$(BIN)/python tools/headless_gl.py
	@$(BIN)/python tools/browser.py

.venv/.installed: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

test: setup
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

check: .venv/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports

format: .venv/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: setup
	$(BIN)/egorecovery demo

bench: .venv/.installed
	$(BIN)/python benchmarks/store.py
	$(BIN)/python benchmarks/label.py

clean:
	rm -rf .venv runs build dist .pytest_cache .hypothesis .ruff_cache .import_linter_cache
