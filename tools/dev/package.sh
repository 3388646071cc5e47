# ./dev package: the Python wheel, which needs nothing but glibc 2.34 and a Python with torch. It has a library for GPUs
# too, which is opened only where a GPU is asked for.

package() {
  local tools=build/package-tools wheels
  install_packages tools/packages-package.txt
  install_cuda
  configure package
  # Configured by an older version of this project, perhaps: it made a wheel without CUDA where no compiler was.
  grep -q '^REKINDLE_CUDA:BOOL=ON' build/package/CMakeCache.txt ||
    quietly "configuring build/package failed" cmake -DREKINDLE_CUDA=ON build/package
  build package rekindle rekindle-control rekindle-board rekindle_shared rekindle_libstdcxx
  if [[ ! -x $tools/bin/wheel ]]; then
    say "installing the tools that pack a wheel"
    python3 -m venv "$tools" || die "python3 cannot make a virtual environment"
    "$tools/bin/python" -m pip install -q --no-cache-dir wheel==0.45.1 || die "wheel could not be installed"
  fi
  python3 tools/dev/wheel_folder.py build/package build/package-wheel || die "the wheel could not be put together"
  rm -rf build/dist
  mkdir build/dist
  # Times of the commit: one build gives the same bytes whenever it is packed.
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 1700000000) \
    "$tools/bin/wheel" pack build/package-wheel --dest-dir build/dist || die "the wheel could not be packed"
  wheels=(build/dist/*.whl)
  test_wheel "${wheels[0]}"
}

# In an environment of its own, with the torch of another.
test_wheel() {
  local python=${REKINDLE_ORACLE_PYTHON:-$(python_folder)/bin/python3}
  if ! "$python" -c 'import numpy, torch' 2>/dev/null; then
    say "not tested, because there is no Python with torch: ./dev python installs one"
    return
  fi
  say "testing the wheel"
  "$python" tests/python/wheel.py "$1" || die "the wheel does not work"
}
