# ./dev fuzz: libFuzzer on the code that reads untrusted bytes.

fuzz_targets=(manifest safetensors toml run_files wire idx cifar folder_index frames h5)

# Mutated files crash libhdf5 itself within minutes, and none of that is ours to correct. So a crash does not end the
# target: `rekindle import` gets each input that libhdf5 crashed on, and has to survive it.
# For a damaged file, libhdf5 also leaks memory and may request any amount of memory. Requests over 1 GiB fail here, as
# in the child process that reads such files (app/foreign_file.cpp).
h5_options=(-detect_leaks=0 -malloc_limit_mb=1000000000 -rss_limit_mb=4096
  -fork=1 -ignore_crashes=1 -ignore_timeouts=1 -ignore_ooms=1)
h5_environment=ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=1024

# import_found FOLDER: each file there is an .h5 file that is converted, or refused in one line.
import_found() {
  local work input status count=0
  work=$(mktemp -d)
  for input in "$1"/{crash,timeout,oom}-*; do
    [[ -e $input ]] || continue
    cp "$input" "$work/input.h5"
    status=0
    build/dev/bin/rekindle import "$work/input.h5" "$work/$count.safetensors" >/dev/null 2>"$work/errors" || status=$?
    [[ $status == 0 || ($status == 78 && $(wc -l <"$work/errors") == 1) ]] ||
      { cat "$work/errors" >&2; say "rekindle import ends with $status for $input"; return 1; }
    count=$((count + 1))
  done
  rm -r "$work"
  say "rekindle import survives $count inputs that libhdf5 does not"
}

# fuzz_target TARGET SECONDS
fuzz_target() {
  local target=$1 seconds=$2 found=build/asan/found options=() environment=()
  mkdir -p "$found/$target" "build/asan/corpus/$target"
  [[ $target != h5 ]] || { options=("${h5_options[@]}") environment=("$h5_environment"); }
  say "fuzzed $target for $seconds s"
  # New inputs go to the first folder; the second folder is in git. An input that needs 10 s counts as a hang.
  env "${environment[@]}" "build/asan/bin/${target}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -max_len=16384 -artifact_prefix="$found/$target/" -verbosity=0 -print_final_stats=1 "${options[@]}" \
    "build/asan/corpus/$target" "tests/fuzz/corpus/$target" || return 1
  [[ $target != h5 ]] || import_found "$found/h5"
}

# fuzz [SECONDS [TARGET...]]: each target for so long, as many at once as there are cores
fuzz() {
  local seconds=${1:-60} found=build/asan/found target running broken=() targets=("${@:2}")
  local -A processes=()
  [[ $seconds =~ ^[0-9]+$ ]] || die "$seconds is no number of seconds: ./dev fuzz [SECONDS [TARGET...]]"
  ((${#targets[@]})) || targets=("${fuzz_targets[@]}")
  for target in "${targets[@]}"; do
    [[ " ${fuzz_targets[*]} " == *" $target "* ]] ||
      die "there is no fuzz target $target: there are ${fuzz_targets[*]}"
  done
  install_packages tools/packages-fuzz.txt
  build asan "${targets[@]/%/_fuzz}"
  [[ " ${targets[*]} " != *" h5 "* ]] || build dev rekindle
  mkdir -p "$found"
  say "fuzzing ${targets[*]}, each for $seconds s"
  for target in "${targets[@]}"; do
    # Not piped into a count: in a pipe the shell lists no jobs.
    while running=($(builtin jobs -rp)) && ((${#running[@]} >= $(nproc))); do sleep 0.2; done
    fuzz_target "$target" "$seconds" &>"$found/$target.log" &
    processes[$target]=$!
  done
  for target in "${targets[@]}"; do
    wait "${processes[$target]}" || broken+=("$target")
    cat "$found/$target.log"
  done
  ((${#broken[@]} == 0)) ||
    die "inputs break ${broken[*]}: they are in $found; correct the reader and add each input to tests/fuzz/corpus"
}
