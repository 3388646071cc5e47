# ./dev build and ./dev test.

# ccache needs this setting to cache objects that use a precompiled header.
export CCACHE_SLOPPINESS=pch_defines,time_macros
# Checkouts in different folders share the cache.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# The number of parallel compilers: one per core, but at least 2.5 GB of memory each, because LibTorch's headers are
# large.
jobs() {
  local cores memory_kb
  cores=$(nproc)
  memory_kb=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  local by_memory=$((memory_kb / 2500000))
  echo $((by_memory < 1 ? 1 : by_memory < cores ? by_memory : cores))
}

# configure PRESET: only if necessary. ninja detects changed files, but not a module that was added or removed.
configure() {
  local directory=build/$1 modules=(*/CMakeLists.txt tests/*/CMakeLists.txt)
  if [[ ! -e $directory/build.ninja || $(cat "$directory/modules.list" 2>/dev/null) != "${modules[*]}" ]]; then
    say "configuring $directory"
    quietly "configuring $directory failed" cmake --preset "$1"
    echo "${modules[*]}" >"$directory/modules.list"
  fi
}

# build PRESET [TARGET...]
build() {
  local preset=${1:-dev} directory
  directory=build/$preset
  shift || true
  [[ $preset != *cuda ]] || install_cuda
  configure "$preset"
  [[ $(ninja -C "$directory" -n "$@" 2>&1 | tail -n 1) == "ninja: no work to do." ]] && return 0
  say "building $directory"
  ninja -C "$directory" -j "$(jobs)" "$@" || die "the build failed"
}

# run_tests [--all] [--strict] [CTEST ARGUMENT...]
run_tests() {
  local which=(-L '^(quick|unit)$') report=build/dev/tests.xml status=0
  while [[ ${1:-} == --all || ${1:-} == --strict ]]; do
    case $1 in
      --all)
        which=()
        install_packages tools/packages-all.txt
        ;;
      --strict) export REKINDLE_STRICT=1 ;;
    esac
    shift
  done
  ctest --test-dir build/dev -j "$((2 * $(nproc)))" --output-on-failure --no-label-summary --no-tests=error \
    --output-junit "$PWD/$report" "${which[@]}" "$@" || status=$?
  tools/dev/test_summary "$report" || say "there is no summary of the tests"
  return "$status"
}

# sanitize [PRESET [CTEST ARGUMENT...]]
sanitize() {
  local preset=${1:-asan}
  shift || true
  [[ $preset != asan ]] || install_packages tools/packages-fuzz.txt
  build "$preset" unit_tests sim
  # The simulator's 20,000 schedules take many minutes here, so a part of them runs.
  "build/$preset/bin/sim" --seed 1 --count 500
  ctest --test-dir "build/$preset" -j "$(nproc)" --output-on-failure --no-label-summary --no-tests=error \
    -L '^unit$' -E 'EverySchedule|PlantedBug' "$@"
}
