# `make demo` shows the main job, `make test` proves that everything works. Both set up all they need in .venv.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DISTIR := $(BIN)/distir

.DEFAULT_GOAL := help
.PHONY: accuracy truth docs paper playground help demo test test-all test-gpu zoo lint types check extension fuzz bench bless clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ $(VENV)/.demo

$(VENV)/.docs: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo ## check, run and simulate a two-device training program, and compare two schedules of it
	@DISTIR=$(DISTIR) sh examples/demo.sh

test: lint ## everything: style, types, all tests
	$(MAKE) --jobs=3 types check extension # `check` takes what the others leave: `extension` mostly waits for windows

lint: $(VENV)/.test ## style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test ## static types, strict
	$(BIN)/pyright

check: $(VENV)/.test ## the tests, on all cores; most files on one, so that what their tests share is made once
	nice -n 15 $(BIN)/pytest --numprocesses auto --dist worksteal # what waits for windows beside it goes first

test-gpu: $(VENV)/.test ## on a machine with a GPU: what is lowered, on it; several ranks share it where there are fewer
	DISTIR_TEST_DEVICE=cuda $(BIN)/pytest $(addprefix tests/,lower/test_torch_forms.py lower/test_torch_kernels.py \
		lower/test_attention_on_ranks.py lower/test_launched_experts.py lower/test_random_launches.py transform/test_gradients_torch.py)

extension: $(VENV)/.test ## the VS Code extension's tests, in a real VS Code where chromium can be had
	DISTIR_PYTHON=$(abspath $(BIN))/python sh vscode-extension/test.sh

test-all: export DISTIR_TEST_ALL = 1
test-all: lint types extension ## the same, and what takes longer: every strategy of every model, more random programs
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[jax]' || echo "without jax: its stored files alone"
	DISTIR_TEST_LAUNCHES=500 $(BIN)/pytest --numprocesses auto --dist worksteal
	DISTIR_TEST_ALL= DISTIR_TEST_PROGRAMS=1000 $(BIN)/pytest --numprocesses auto tests/simulate/test_simulation_laws.py tests/simulate/test_hosts_and_streams.py tests/transform/test_random_chains.py

zoo: $(VENV)/.test ## every family of models through every strategy, verified: writes docs/reference/models.md
	$(BIN)/python tests/zoo/zoo.py

docs: $(VENV)/.docs ## the documentation as a site in build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

fuzz: $(VENV)/.test ## MINUTES=1 of CPU time for each of parser, editor, settings, models and tensors
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]' || echo "without atheris: by chance, not by coverage"
	@failed=0; for target in text editor settings onnx tensors; do \
		$(BIN)/python tests/hardening/fuzz.py $$target --minutes $(or $(MINUTES),1) || failed=1; done; exit $$failed

bench: $(VENV)/.test ## speed, in CPU time, with ratios to baselines; never pass or fail
	@for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

playground: $(VENV)/.test ## DistIR in a browser, as a static site in build/playground; needs node 20 and npm
	DISTIR_PYTHON=$(abspath $(BIN))/python sh vscode-extension/playground/make.sh build/playground

paper: $(VENV)/.test ## the paper's evaluation: docs/explanation/paper.md with its pictures; goes on where it was
	$(BIN)/python examples/paper/report.py

truth: $(VENV)/.test ## how true the simulator is: predicts published runs, writes docs/explanation/truth.md; goes on where it was (ARGS=examples/measured/dgxc.csv: predicts those)
	$(BIN)/python examples/measured/report.py $(ARGS)

accuracy: $(VENV)/.test ## how true the simulator is: calibrate and run here (ARGS=--measured: compare with what was measured)
	$(BIN)/python examples/accuracy/accuracy.py $(ARGS)

bless: $(VENV)/.test ## rewrite the golden files; the diff is the review
	$(BIN)/pytest --numprocesses auto --bless

clean: ## remove the environment and what tools leave behind
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
