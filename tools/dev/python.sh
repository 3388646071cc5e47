# ./dev python: a Python with PyTorch, for the tests that need one. Five gigabytes, so nothing else installs it.

python_folder() { echo "${XDG_CACHE_HOME:-$HOME/.cache}/rekindle/python"; }

install_python() {
  local folder
  folder=$(python_folder)
  if ! cmp -s tools/python-requirements.txt "$folder/.complete"; then
    say "installing PyTorch into $folder (5 GB, once)"
    if [[ ! -e $folder/.complete ]]; then
      rm -rf "$folder"
      python3 -m venv "$folder" || die "python3 cannot make a virtual environment: install the package python3-venv"
    fi
    "$folder/bin/python" -m pip install -q --no-cache-dir -r tools/python-requirements.txt ||
      die "PyTorch could not be installed: see pip's message above"
    cp tools/python-requirements.txt "$folder/.complete"
  fi
  say "PyTorch is in $folder; ./dev test finds it there"
}

# Names this Python to the tests, unless another one is named.
use_python() {
  local python
  python=$(python_folder)/bin/python3
  [[ -n ${REKINDLE_ORACLE_PYTHON:-} || ! -x $python ]] || export REKINDLE_ORACLE_PYTHON=$python
}
