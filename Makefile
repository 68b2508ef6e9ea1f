# Every target runs with the `python` of the active environment: pip install -e '.[dev]' first.
PYTHON ?= python
TEST ?= $(PYTHON) -m pytest

.PHONY: check format-check lint types layers test format bench bench-gpu gpu

check: format-check lint types layers test

format-check:
	$(PYTHON) -m ruff format --check .

lint:
	$(PYTHON) -m ruff check .

types:
	$(PYTHON) -m mypy

layers:
	$(PYTHON) -c "from importlinter.cli import lint_imports_command; lint_imports_command()"

test:
	$(TEST)

format:
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

bench:
	$(PYTHON) -m tests.benchmarks

bench-gpu:
	$(PYTHON) -m tests.benchmarks.gpu_mlp

gpu:
	$(PYTHON) -m tests.benchmarks.gpu_day
