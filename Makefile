# The supported way to install and run posttrain on a CPU. Every target is idempotent.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TORCH := $(shell sed -n 's/^torch==//p' constraints.txt)

.PHONY: install quickstart smoke test check clean
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

clean:
	rm -rf $(VENV) store
