# ./dev package: the Python wheel, which needs nothing but glibc 2.34 and a Python with torch.

# One set of programs gives the same bytes whenever and by whomever it is packed: the times in the wheel are the commit's.
package() {
  local tools=build/package-tools
  install_packages tools/packages-package.txt
  build package rekindle rekindle-control rekindle_shared rekindle_libstdcxx
  if [[ ! -x $tools/bin/wheel ]]; then
    say "installing the tools that pack a wheel"
    python3 -m venv "$tools" || die "python3 cannot make a virtual environment"
    "$tools/bin/python" -m pip install -q --no-cache-dir wheel==0.45.1 || die "wheel could not be installed"
  fi
  python3 tools/dev/wheel_folder.py build/package build/package-wheel || die "the wheel could not be put together"
  mkdir -p build/dist
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 1700000000) \
    "$tools/bin/wheel" pack build/package-wheel --dest-dir build/dist
}
