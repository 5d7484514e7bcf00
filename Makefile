# Two commands: `make demo` and `make test`. Each does all its own set-up in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test pages chaos lint check-datasets bench clean

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[all,dev]"
	touch $@

demo: $(INSTALLED)
	$(BIN)/fewtask demo

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest

# Kills, fuzzed files and planted faults, which take hours and go on where they were stopped; figures go to
# docs/trust.md. A part alone: CHAOS="--only fuzz --fuzz 50000".
chaos: $(INSTALLED)
	$(BIN)/python tests/chaos/run.py $(CHAOS)

check-datasets: $(INSTALLED)
	$(BIN)/python benchmarks/check_datasets.py

bench: $(INSTALLED)
	$(BIN)/fewtask bench

clean:
	rm -rf $(VENV) build src/*.egg-info

# What pages copy from the results and from docs/rooms.toml, and the site, in build/site.
pages: $(INSTALLED)
	$(BIN)/python tools/fill_pages.py
	$(BIN)/mkdocs build --strict --quiet
