# Every target runs with the `python` of the active environment: pip install -c tests/constraints.txt -e '.[dev]' first.
PYTHON ?= $(shell command -v python || echo python3)
TEST ?= $(PYTHON) -m pytest

.PHONY: scanner check format-check lint types layers house numbers test test-rest test-all nightly format bench bench-gpu \
	findings gpu fuzz mutants audit pins schemas pictures reliability

check: format-check lint types layers house test

format-check:
	$(PYTHON) -m ruff format --check .

lint:
	$(PYTHON) -m ruff check .

types:
	$(PYTHON) -m mypy

layers:
	$(PYTHON) -c "from importlinter.cli import lint_imports_command; lint_imports_command()"

# Figures of the code held against house.toml; `python -m tests.house --write` lowers the budgets of what fell.
house:
	$(PYTHON) -m tests.house

# After a change of numbers on purpose, which the commit tells: the digests of every table of the traces at hand.
numbers:
	$(PYTHON) -m tests.house.numbers write

# The quick tier: everything that needs no process of its own, and one test of each kind that does.
test:
	$(TEST)

# What the quick tier leaves out of the full one.
test-rest:
	$(PYTHON) -m pytest -m "full and not (smoke or nightly)"

test-all: test test-rest

# What takes minutes, or looks for what nobody has thought of: needs the extras `fuzz` and `mutants`.
nightly:
	$(PYTHON) -m pytest -m nightly
	$(PYTHON) -m pytest -m "hypothesis and not nightly" --hypothesis-profile=many
	$(MAKE) fuzz mutants

format:
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

# A quarter of an hour, with the tables of docs/performance.md written at its end.
bench:
	$(PYTHON) -m tests.benchmarks --page docs/performance.md

bench-gpu:
	$(PYTHON) -m tests.benchmarks.gpu_mlp

# Scores the findings of labelled traces: make findings LABELS=file.json, by default those beside the checkout.
findings:
	$(PYTHON) -m tests.benchmarks.finding_labels $(LABELS)

gpu:
	$(PYTHON) -m tests.benchmarks.gpu_day || test $$? -eq 1
	$(PYTHON) -m tests.benchmarks.gpu_results .gpu_day --samples sample_traces

# Ten minutes each: pip install -e '.[fuzz]' first.
fuzz:
	$(PYTHON) -m tests.fuzz opening --minutes 10
	$(PYTHON) -m tests.fuzz panes --minutes 10
	$(PYTHON) -m tests.fuzz packets --minutes 10
	$(PYTHON) -m tests.fuzz snapshots --minutes 10
	$(PYTHON) -m tests.fuzz exports --minutes 10
	$(PYTHON) -m tests.fuzz logs --minutes 10
	$(PYTHON) -m tests.fuzz.mutations --count 3000
	$(PYTHON) -m tests.support.altered_traces --count 20000 --seed 1000
	$(PYTHON) -m tests.fuzz.scanner --minutes 10
	$(PYTHON) -m tests.fuzz.nesting --minutes 2

# After a change of scanner.c, nesting.c or arrow.c; installing does the same.
scanner:
	$(PYTHON) hatch_build.py

# By night: pip install -e '.[mutants]' first. The share of small changes to the pure modules that their tests notice.
mutants:
	$(PYTHON) -m tests.mutants

# Asks the advisory databases: pip install -e '.[audit]' first. What is ignored is told in SECURITY.md.
audit:
	$(PYTHON) -m pip_audit --no-deps --disable-pip -r tests/constraints.txt \
		--ignore-vuln GHSA-6w46-j5rx-g56g --ignore-vuln GHSA-rrmf-rvhw-rf47

# The schemas of JSON in docs/schema, and the digest of each for CHANGELOG.md.
schemas:
	$(PYTHON) -m tests.support.schemas

# In a fresh environment, after its tests have passed.
pins:
	$(PYTHON) -m pip check
	$(PYTHON) -m tests.support.pins > tests/constraints.new
	mv tests/constraints.new tests/constraints.txt

# The pictures of the screen in docs/, of the sample traces and of a simulated one: two minutes.
pictures:
	$(PYTHON) docs/pictures.py

# All of docs/reliability.md, the long parts too: about an hour. Needs the extra `fuzz`, and three TRACES to press keys on.
TRACES ?= sample_traces/mlp_train_cpu.json.gz sample_traces/mlp_eager_cpu.json.gz sample_traces/linear_eager_cpu.json.gz
reliability: fuzz
	$(PYTHON) -m pytest -m "" tests/load tests/terminal tests/workloads tests/reading/test_damage.py tests/fuzz \
		tests/tables/test_random_traces.py tests/writing tests/cli/test_ending.py tests/drawing/test_plain.py \
		tests/project/test_installed.py tests/browser
	$(PYTHON) -m tests.load.monkey $(TRACES) --minutes 20
