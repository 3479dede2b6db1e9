# Everything a newcomer, a developer or CI runs. Needs git, make and Python 3.11+ with venv; the rest is installed here.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq install
ARGS ?=
ON_SERVERS := tests/db tests/queue tests/flow/test_happy_path.py tests/web/test_sandbox_api.py \
	$(addprefix tests/worker/, test_planning.py test_comments.py test_commands.py test_life.py)
CRASH := tests/crash tests/worker/test_pace.py
LOCK := --universal --python-version 3.11 --generate-hashes --no-header -q

# Tests start hundreds of processes of ours, each of which would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-whole test-servers test-daytona check crash bench docs lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

demo: $(if $(findstring daytona,$(ARGS)),$(VENV)/.dev,$(VENV)/.run) ## watch a labeled issue become a pull request, all on this machine (options: ARGS=--keep)
	@$(BIN)/issuewright demo $(ARGS)

test: $(VENV)/.dev ## run the tests that people wait for (options: ARGS=-k name)
	@$(BIN)/python -m pytest -m "not whole and not crash and not load" -n 2 --dist worksteal $(ARGS)

test-whole: $(VENV)/.dev ## run the slow rest: whole stories with real processes, and many rounds against the simulators
	@$(BIN)/python -m pytest -m "whole and not load" -n 2 --dist worksteal $(ARGS)

test-servers: $(VENV)/.dev ## what meets the database or Redis once more, on PostgreSQL and redis-server (see the README)
	@$(BIN)/python -m pytest --servers -n 2 $(ON_SERVERS) $(ARGS)

test-daytona: $(VENV)/.dev ## the stories that touch a sandbox once more, with agents on a simulated Daytona
	@$(BIN)/python -m pytest --sandbox daytona -n 2 --dist worksteal tests/flow $(ARGS)

check: $(VENV)/.dev ## lint, format, types, import rules, migrations
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m tests.checks

crash: $(VENV)/.dev ## kill processes at named points and see that nothing is lost or doubled (minutes)
	@$(BIN)/python -m pytest -p tests.crash.report -m "crash or load" -n 2 --dist worksteal $(CRASH) $(ARGS)

bench: $(VENV)/.dev ## measure, as ratios within one run
	@$(BIN)/python -m bench $(ARGS)

docs: $(VENV)/.dev ## write the configuration reference again from app/settings.py
	@$(BIN)/python -m tests.checks.configuration

lock: $(VENV)/.dev ## resolve the exact versions again (needs uv)
	uv pip compile pyproject.toml --extra local --extra daytona --extra dev $(LOCK) -o requirements/dev.lock
	uv pip compile pyproject.toml --extra local $(LOCK) -c requirements/dev.lock -o requirements/run.lock
	uv pip compile pyproject.toml --extra local --extra daytona $(LOCK) -c requirements/dev.lock -o requirements/daytona.lock

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache build *.egg-info

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "Python 3.11 or newer is needed, this is %d.%d: make PYTHON=python3.11 ..." % v[:2])'
	@echo "Building the virtual environment in $(VENV) (once, about a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.run: $(VENV)/.made requirements/run.lock pyproject.toml
	@$(PIP) --no-deps --require-hashes -r requirements/run.lock
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.daytona: $(VENV)/.run requirements/daytona.lock
	@$(PIP) --no-deps --require-hashes -r requirements/daytona.lock
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.lock
	@$(PIP) --no-deps --require-hashes -r requirements/dev.lock
	@touch $@
