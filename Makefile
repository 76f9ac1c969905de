# make demo    builds a view of a fictitious hospital's admissions and queries it
# make check   style, types, unit and property tests; no servers, no browsers
# make test    everything, as continuous integration runs it (installs PostgreSQL, Chromium and clients)
# make docs    builds the documentation into site/, without a network

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One more than there are cores, because browsers, databases and Spark run in processes of their own.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

.PHONY: demo check test lint types kernels unit hunt format clean fuzz kill benchmarks docs

demo: $(VENV)/.installed
	$(BIN)/hdpview demo

docs: $(VENV)/.installed-for-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "Open site/index.html, or with search: $(BIN)/python -m http.server --directory site"

# The checks to run before a commit. Types are checked on one core while the other compiles kernels.
check: lint
	$(MAKE) --no-print-directory --jobs 2 types kernels
	$(BIN)/pytest -q -n $(WORKERS) --dist loadgroup --no-loadscope-reorder tests/unit tests/property tests/reference

test: lint
	$(MAKE) --no-print-directory --jobs 2 types kernels
	$(MAKE) --no-print-directory unit

lint: $(VENV)/.installed-for-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-for-tests
	$(BIN)/mypy

# Compiled once, so that the workers do not each compile the same ones.
kernels: $(VENV)/.installed-for-tests
	$(BIN)/python tests/compile_kernels.py

# Tests start many processes, which should share compiled modules.
unit hunt: export PYTHONDONTWRITEBYTECODE =
unit: $(VENV)/.installed-for-tests postgresql chromium clients $(VENV)/duckdb-postgres
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

# Property tests on new random examples, ROUNDS times; `make test` always takes the same ones.
ROUNDS ?= 10
hunt: $(VENV)/.installed-for-tests postgresql chromium clients $(VENV)/duckdb-postgres
	for round in $$(seq $(ROUNDS)); do \
	  HYPOTHESIS_PROFILE=hunt $(BIN)/pytest -q -n $(WORKERS) --dist loadgroup --no-loadscope-reorder -m hypothesis || exit 1; done

# The long runs behind docs/security.md: about half an hour and a few minutes.
fuzz: $(VENV)/.installed-for-bench
	$(BIN)/python -m hdpview_bench.fuzz --inputs 1000000 --seed 2026

kill: $(VENV)/.installed-for-bench
	$(BIN)/python -m hdpview_bench.kill --rounds 500 --seed 2026

# Writes docs/benchmarks.md and its figures from a folder of datasets. A stopped run continues.
DATA ?= data
benchmarks: $(VENV)/.installed-for-bench
	$(BIN)/hdpview bench paper --data-dir $(DATA) --cells .cache/benchmarks -o docs

format: $(VENV)/.installed-for-tests
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[build]'
	touch $@

$(VENV)/.installed-for-docs: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[docs]'
	touch $(VENV)/.installed-for-docs

$(VENV)/.installed-for-bench: pyproject.toml bench/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[build]' --editable ./bench
	touch $(VENV)/.installed $@

$(VENV)/.installed-for-tests: pyproject.toml bench/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[test]' --editable ./bench
	touch $(VENV)/.installed $(VENV)/.installed-for-bench $(VENV)/.installed-for-docs $@

# The tests start a real PostgreSQL server.
.PHONY: postgresql
postgresql:
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null 2>&1 || { \
	  echo "installing PostgreSQL for the tests"; \
	  SUDO=$$( [ "$$(id -u)" = 0 ] || echo sudo ); \
	  $$SUDO apt-get update -qq && $$SUDO env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null; }

# The tests of the explorer drive Chromium: the headless shell, which takes half the time, or the whole browser.
.PHONY: chromium
chromium:
	@command -v chromium-headless-shell >/dev/null 2>&1 || { \
	  echo "installing Chromium for the tests"; \
	  SUDO=$$( [ "$$(id -u)" = 0 ] || echo sudo ); \
	  INSTALL="$$SUDO env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends"; \
	  $$SUDO apt-get update -qq; $$INSTALL chromium-headless-shell >/dev/null 2>&1 || \
	    command -v chromium >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 || $$INSTALL chromium >/dev/null; }

# PostgreSQL clients that query a view in the tests: JDBC, ODBC and R. 60 MB, half a minute.
CLIENTS := libpostgresql-jdbc-java odbc-postgresql odbcinst libodbc2 r-base-core r-cran-rpostgresql r-cran-dbplyr
.PHONY: clients
clients:
	@dpkg -s $(CLIENTS) >/dev/null 2>&1 || { \
	  echo "installing JDBC, ODBC and R clients for the tests"; \
	  SUDO=$$( [ "$$(id -u)" = 0 ] || echo sudo ); \
	  $$SUDO apt-get update -qq && $$SUDO env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(CLIENTS) >/dev/null; }

# DuckDB's PostgreSQL extension, one more client. It needs another DuckDB than builds do, so both are installed in
# a folder of their own. 100 MB.
$(VENV)/duckdb-postgres: | $(VENV)/.installed-for-tests
	$(BIN)/pip install --quiet --no-deps --target $@ duckdb==1.5.5 duckdb-extension-postgres-scanner==1.5.5

clean:
	rm -rf $(VENV) hdpview-demo dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
