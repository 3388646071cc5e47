# ./dev fuzz: libFuzzer on the code that reads untrusted bytes.

# Without names, all but h5: mutated files crash libhdf5 itself within minutes, and none of that is ours to correct.
# Its inputs in tests/fuzz/corpus/h5 are read by every ./dev test.
fuzz_targets=(manifest safetensors toml run_files wire idx cifar folder_index frames)
fuzz_targets_by_name=(h5)

# For a damaged file, libhdf5 leaks memory and may request any amount of memory. Requests over 1 GiB fail here, as in
# the child process that reads such files (app/foreign_file.cpp).
h5_options=(-detect_leaks=0 -malloc_limit_mb=1000000000 -rss_limit_mb=4096)
h5_environment=ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=1024

# fuzz [SECONDS [TARGET...]]: for each target
fuzz() {
  local seconds=${1:-60} found=build/fuzz/found target broken=() targets=("${@:2}")
  [[ $seconds =~ ^[0-9]+$ ]] || die "$seconds is no number of seconds: ./dev fuzz [SECONDS [TARGET...]]"
  ((${#targets[@]})) || targets=("${fuzz_targets[@]}")
  for target in "${targets[@]}"; do
    [[ " ${fuzz_targets[*]} ${fuzz_targets_by_name[*]} " == *" $target "* ]] ||
      die "there is no fuzz target $target: there are ${fuzz_targets[*]} ${fuzz_targets_by_name[*]}"
  done
  install_packages tools/packages-fuzz.txt
  build fuzz "${targets[@]/%/_fuzz}"
  for target in "${targets[@]}"; do
    mkdir -p "$found/$target" "build/fuzz/corpus/$target"
    local options=() environment=()
    [[ $target != h5 ]] || { options=("${h5_options[@]}") environment=("$h5_environment"); }
    say "fuzzing $target for $seconds s"
    # New inputs go to the first folder; the second folder is in git. An input that needs 10 s counts as a hang.
    env "${environment[@]}" "build/fuzz/bin/${target}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
      -max_len=16384 -artifact_prefix="$found/$target/" -verbosity=0 -print_final_stats=1 "${options[@]}" \
      "build/fuzz/corpus/$target" "tests/fuzz/corpus/$target" || broken+=("$target")
  done
  ((${#broken[@]} == 0)) ||
    die "inputs break ${broken[*]}: they are in $found; correct the reader and add each input to tests/fuzz/corpus"
}
