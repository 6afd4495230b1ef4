# setup → .venv/bin/vodpress · demo · test (includes check) · check · bench · docs · lock
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= auto
STAMP := .venv/.installed
PLAYERS := node_modules/.installed

.PHONY: setup demo test check guards soak bench lock docs clean

setup: $(STAMP)

$(STAMP): requirements-dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "vodpress needs Python 3.11 or newer; set PYTHON=python3.12, for example")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

demo: setup
	$(BIN)/python -m demo

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The players that the browser tests run. Without npm those tests are skipped, with a sentence.
$(PLAYERS): package-lock.json .npmrc
	if command -v npm >/dev/null; then npm ci --silent --no-audit --no-fund && touch $@; fi

test: check $(PLAYERS)
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup

# Takes every guard away in turn and sees that a test notices; about a quarter of an hour.
guards: setup
	$(BIN)/python -m tests.guards

# Every fault at every boundary, an asset and a worker each; about an hour.
soak: setup
	VODPRESS_TEST_SOAK=1 $(BIN)/pytest -n $(WORKERS) --dist loadgroup tests/crash tests/conformance/queue

bench: setup
	$(BIN)/python -m benchmarks

docs: setup
	$(BIN)/python -m vodpress.domain.diagrams > docs/reference/states.md
	$(BIN)/python -m vodpress.settings_page > docs/reference/settings.md
	$(BIN)/python -m vodpress.domain.failure_table > docs/reference/failures.md

# Needs uv (https://docs.astral.sh/uv/); the files carry hashes and no addresses.
lock:
	uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -q -o requirements.txt
	uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -q -o requirements-dev.txt

clean:
	rm -rf .venv node_modules build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
