# make run    set up, start the app at a loopback address; it audits the demo hospital beside
# make test   set up, run the tests that take no more than some two seconds each
# make test-long the other tests that CI runs, but for those in a browser
# make e2e    the tests in a real browser
# make slow   the tests that take long, in a browser or not
# make check  format, lint and types
# make docs   writes docs/commands.md and docs/models.md
# make bundle writes into dist/ what a machine without internet installs from
# make bench-gpu measures both attacks and the tuning of a generative tagger on a GPU, in bfloat16
# make lock   writes requirements.lock, which names every package with its hashes
# make golden compares the answers of this tree with those of an earlier commit
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8501
WORKERS ?= 2

.PHONY: run test test-long test-all check e2e slow docs lock bench-gpu golden bundle clean

run: $(VENV)/.runtime
	@echo "Open http://127.0.0.1:$(PORT)"
	KART_AUDIT_DEMO=1 $(BIN)/python -m streamlit run app.py --server.port $(PORT)

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --ignore tests/e2e -m "not long and not slow and not gpu"

test-long: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --ignore tests/e2e -m "long and not slow and not gpu"

test-all: $(VENV)/.dev
	$(BIN)/python -m pytest -m "not gpu"

e2e: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile tests/e2e -m "not slow and not gpu"

docs: $(VENV)/.dev
	$(BIN)/python -m benchmarks.commands_reference
	$(BIN)/python -m benchmarks.models_reference

lock: $(VENV)/.runtime
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --generate-hashes --no-emit-index-url \
		--default-index https://pypi.org/simple --custom-compile-command "make lock" \
		--python-version 3.11 --python-platform x86_64-unknown-linux-gnu \
		--output-file requirements.lock requirements.txt

bench-gpu: $(VENV)/.runtime
	$(BIN)/python -m audit bench generation --device cuda --dtype bfloat16 --batch 4000 --steps 20
	$(BIN)/python -m audit bench posterior --device cuda --dtype bfloat16 --batch 64
	$(BIN)/python -m audit bench causal --device cuda --dtype bfloat16 --names 400000
	$(BIN)/python -m audit bench tuning --device cuda --dtype bfloat16 --width 2048 --layers 24 --length 4096
	$(BIN)/python -m audit bench tuning --device cuda --dtype bfloat16 --width 2048 --layers 24 --length 4096 --checkpointed

golden: $(VENV)/.dev
	$(BIN)/python benchmarks/golden.py

bundle: $(VENV)/.runtime
	$(BIN)/python .ci/bundle.py dist

slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m "slow and not gpu"
	KART_AUDIT_TRIES=34 $(BIN)/python -m pytest tests/base/test_hostile_inputs.py tests/base/test_write_faults.py

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

$(VENV)/.runtime: requirements.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -r requirements.txt
	touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.txt
	$(BIN)/python -m pip install --quiet -r requirements-dev.txt
	touch $@

clean:
	rm -rf $(VENV)
