# ./dev setup: Debian packages and LibTorch, each only if it is missing.

setup() {
  install_packages tools/packages.txt
  install_torch
}

install_packages() {
  local list=$1 package missing=() as_root=()
  command -v dpkg-query >/dev/null || die "this needs Debian 12 (its packages are listed in $list)"
  local installed
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null)
  for package in $(entries "$list"); do
    grep -qxF "installed $package" <<<"$installed" || missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  local command="apt-get install -y --no-install-recommends ${missing[*]}"
  if ((EUID != 0)); then
    # A password can be typed only at a terminal.
    if command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
      as_root=(sudo)
    else
      die "packages are missing, run as root: apt-get update && $command"
    fi
  fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3
    -o DPkg::Lock::Timeout=300)
  say "installing Debian packages: ${missing[*]}"
  quietly "apt-get update failed: is the network up?" "${apt[@]}" update
  quietly "apt-get could not install the packages: try $command" \
    "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
}

install_torch() {
  install_wheels tools/torch-requirements.txt build/torch "LibTorch (545 MB)"
}

# The presets cuda and dev-cuda need CUDA's compiler: that of the system, or else NVIDIA's Python packages.
install_cuda() {
  if command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; then return 0; fi
  install_pinned_cuda
}

# CUDA's compiler of tools/cuda-requirements.txt, even if the system has another one.
install_pinned_cuda() {
  local target=build/cuda-toolkit root
  install_wheels tools/cuda-requirements.txt "$target" "CUDA's compiler (104 MB)"
  root=$PWD/$target/nvidia/cu13
  # A wheel keeps neither the permission to run nor links.
  chmod +x "$root"/bin/* "$root"/nvvm/bin/*
  ln -sfn lib "$root/lib64"
  ln -sfn libcudart.so.13 "$root/lib/libcudart.so"
  export CUDACXX=$root/bin/nvcc CUDAToolkit_ROOT=$root
}

# install_wheels REQUIREMENTS TARGET WHAT: unpacks the wheels into TARGET. A rename creates it, so it is always complete.
install_wheels() {
  local list=$1 target=$2 wheels=${XDG_CACHE_HOME:-$HOME/.cache}/rekindle/wheels
  wheels_are_in "$target" "$list" && return 0
  mkdir -p build "$wheels"
  (
    flock 9 # if two ./dev run at once, the second finds the work done
    wheels_are_in "$target" "$list" && exit 0
    have_wheels "$wheels" "$list" || download_wheels "$wheels" "$list" "$3"
    say "unpacking $3 into $target"
    rm -rf "$target.new"
    python3 tools/dev/unpack_wheels.py "$target.new" $(wheel_files "$wheels" "$list") || die "unpacking $3 failed"
    rm -rf "$target"
    mv -T "$target.new" "$target"
    wheels_are_in "$target" "$list" || die "$target does not match $list"
  ) 9>build/.wheels.lock
}

# Whether the pinned versions are installed.
wheels_are_in() {
  local pin
  for pin in $(grep -o '^[^ ]*==[^ ]*' "$2"); do
    pin=${pin/==/:}
    pin=${pin//-/_}
    [[ -d $1/${pin/:/-}.dist-info ]] || return 1
  done
}

# The kept wheels with a pinned sha256, of this machine's architecture or of all.
wheel_files() {
  local file hash
  for file in "$1"/*{any,"$(uname -m)"}.whl; do
    [[ -e $file ]] || continue
    hash=$(sha256sum "$file") && hash=${hash%% *}
    if grep -qF "sha256:$hash" "$2"; then echo "$file"; fi
  done
}

have_wheels() { (($(wheel_files "$1" "$2" | wc -l) == $(grep -c '==' "$2"))); }

download_wheels() {
  local python found=""
  for python in python3 /usr/bin/python3; do
    if "$python" -m pip --version >/dev/null 2>&1; then
      found=$python
      break
    fi
  done
  [[ $found ]] || die "python3 has no pip: install the package python3-pip"
  say "downloading $3, once; kept in $1"
  # Any Python's pip works, because nothing of the wheels is for Python. -q only without a terminal, to show progress.
  local quiet=(-q)
  [[ ! -t 1 ]] || quiet=()
  local platforms=() each
  for each in _2_28 _2_25 _2_17 2014 2010; do platforms+=(--platform "manylinux${each}_$(uname -m)"); done
  "$found" -m pip "${quiet[@]}" --no-cache-dir download --no-deps --require-hashes --only-binary=:all: \
    --python-version 3.11 "${platforms[@]}" -d "$1" -r "$2" ||
    die "$3 could not be downloaded: see pip's message above, then run ./dev setup again"
}
