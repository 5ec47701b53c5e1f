# SPDX-License-Identifier: Apache-2.0
# Commands for daily work. Each target first installs missing packages (scripts/setup.sh). CMake builds.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
FUZZ_SECONDS ?= 60
.PHONY: help demo check test test-long test-mpi test-opencl test-python wheel wheel-test rmm-test fuzz mutants bench bench-mpi gpu-bundle gpu-test plots format tidy clean
MAKEFLAGS += --no-print-directory

common := . scripts/common.sh
data := data/debian-12-depends.el.gz
sources = $$(git ls-files --cached --others --exclude-standard '*.hpp' '*.cpp' '*.cuh' '*.cu' '*.h' '*.cl')
fortran_sources = $$(git ls-files --cached --others --exclude-standard '*.f90')

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

demo: ## build and run the demo: kernels build a graph in a heap and MPI ranks run as threads, on the GPU if there are a GPU and nvcc; a pool is tuned on a trace
	@scripts/setup.sh python
	@$(common); preset=$$(best_preset); build $$preset graph_demo; \
	step "running build/$$preset/examples/graph_demo $(data)"; \
	build/$$preset/examples/graph_demo $(data) || exit 1; \
	if grep -q opencl_graph build/$$preset/build.ninja && compgen -G '/etc/OpenCL/vendors/*.icd' >/dev/null; then \
	  build $$preset opencl_graph && build/$$preset/examples/opencl_graph $(data); fi
	@$(common); scripts/demo_mpi.sh $$(best_preset)
	@scripts/demo_trace.sh data/gpt.pickle.gz

check: ## for daily work: build and run the tests that need no GPU and less than a minute each, without sanitizers
	@scripts/setup.sh
	@QUARRY_CTEST='-LE long' scripts/run_tests.sh dev

test: ## build and run every test that needs no GPU, also under sanitizers; compile the CUDA build if nvcc is installed
	@scripts/setup.sh cache python browser mpi fuzz
	@scripts/run_tests.sh

test-long: ## takes hours: every test under every sanitizer with 2,000 seeds, each source compiled alone, mutants, fuzzing, all CUDA programs, test-mpi
	@scripts/setup.sh fuzz
	@$(common); failed=0; \
	QUARRY_TEST_SEEDS=$${QUARRY_TEST_SEEDS:-2000} scripts/run_tests.sh $$(presets_of test-long) cuda-all || failed=1; \
	$(MAKE) mutants || failed=1; $(MAKE) fuzz || failed=1; $(MAKE) test-mpi || failed=1; exit $$failed

test-python: ## build the Python package's wheel, install it into a clean venv, and run its tests there
	@scripts/setup.sh python browser
	@scripts/run_tests.sh python

wheel: ## build in dist the sdist of the Python package and its wheels, for the versions of Python on this machine; check their manylinux tags and abi3
	@scripts/setup.sh wheel
	@scripts/build_wheels.sh

wheel-test: ## install the wheels of dist for each version of Python on this machine, and run the Python package's tests there
	@scripts/setup.sh browser
	@scripts/test_wheels.sh

test-opencl: ## install PoCL, Intel's OpenCL runtime, oclgrind and pyopencl, and run the OpenCL tests on each
	@scripts/setup.sh opencl
	@scripts/test_opencl.sh

rmm-test: ## build the test and the example for users of RMM with RMM's packages and the CUDA toolkit's headers; run the test
	@scripts/setup.sh rmm
	@$(common); build rmm rmm_tests from_rmm_containers; ctest --preset rmm -R '^rmm_tests\.'

test-mpi: ## run the MPI programs of tests/mpi with 50 seeds, and 10,000 random functions; with MPI_TABLE and MPI_FOLDER, also programs that you have (scripts/mpi_programs.py)
	@scripts/setup.sh mpi
	@scripts/test_mpi.sh $(if $(MPI_TABLE),"$(MPI_TABLE)" "$(MPI_FOLDER)")

fuzz: ## fuzz the pools, the C API, plans and the readers of logs with libFuzzer for FUZZ_SECONDS (60) each; keep new inputs in build/fuzz/corpus
	@scripts/setup.sh fuzz
	@FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz.sh

mutants: ## relax each labelled memory order in turn; check that a test fails
	@scripts/setup.sh
	@scripts/check_mutants.sh

bench: ## run the benchmarks, on the GPU if there is one; write the results to bench/results
	@scripts/setup.sh bench
	@$(common); preset=$$(best_preset); build $$preset; \
	QUARRY_COMMIT=$$(commit) scripts/run_bench.sh build/$$preset/bench bench/results

bench-mpi: ## run the MPI benchmarks with Quarry and with Open MPI; write the results to bench/results
	@scripts/setup.sh mpi
	@$(common); preset=$$(best_preset); scripts/build_mpi_bench.sh dist/mpi_bench $$preset && \
	QUARRY_COMMIT=$$(commit) dist/mpi_bench/run_mpi_bench.sh dist/mpi_bench bench/results $$([ $$preset != cuda ] || echo quarry-gpu) quarry-cpu open-mpi

gpu-bundle: ## collect in dist/gpu all files that another machine with a GPU needs to run tests and benchmarks
	@scripts/setup.sh
	@scripts/gpu_bundle.sh

gpu-test: ## run the tests that need a GPU, on this machine
	@$(common); has_gpu || \
	fail "this machine has no GPU. Run 'make gpu-bundle', copy dist/gpu to a machine with a GPU, and run ./run.sh there"
	@scripts/setup.sh
	@scripts/gpu_bundle.sh
	@dist/gpu/run.sh build/gpu-results tests

plots: ## draw docs/plots and rewrite the tables of README and docs from bench/results
	@scripts/setup.sh plots
	@.venv/bin/python -m scripts.figures --draw

format: ## format every C++, CUDA, OpenCL and Fortran source
	@scripts/setup.sh format
	@clang-format-19 -i $(sources)
	@for file in $(fortran_sources); do \
	  text=$$(findent -ifree -i2 -k2 -c2 < $$file) && printf '%s\n' "$$text" > $$file; \
	done
	@git status --short

tidy: ## look for likely mistakes with clang-tidy
	@scripts/setup.sh tidy
	@$(common); build dev; step "running clang-tidy"; \
	run-clang-tidy-19 -quiet -p build/dev "^$$PWD/(src|tests|bench|examples)/"

clean: ## remove build and dist
	@rm -rf build dist
