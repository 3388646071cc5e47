# ./dev package: the Python wheel, which needs nothing but glibc 2.34 and a Python with torch.

package() {
  local tools=build/package-tools
  build package rekindle rekindle-control rekindle_shared
  if [[ ! -x $tools/bin/wheel ]]; then
    say "installing the tools that pack a wheel"
    python3 -m venv "$tools" || die "python3 cannot make a virtual environment: install the package python3-venv"
    "$tools/bin/python" -m pip install -q --no-cache-dir wheel==0.45.1 || die "wheel could not be installed"
  fi
  python3 tools/dev/wheel_folder.py build/package build/package-wheel || die "the wheel could not be put together"
  mkdir -p build/dist
  "$tools/bin/wheel" pack build/package-wheel --dest-dir build/dist
}
