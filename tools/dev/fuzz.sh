# ./dev fuzz: libFuzzer on what reads bytes of strangers.

fuzz_targets=(manifest safetensors toml run_files wire idx frames)

# fuzz [SECONDS]: for each target
fuzz() {
  local seconds=${1:-60} found=build/fuzz/found target broken=()
  install_packages tools/packages-fuzz.txt
  build fuzz "${fuzz_targets[@]/%/_fuzz}"
  for target in "${fuzz_targets[@]}"; do
    mkdir -p "$found/$target" "build/fuzz/corpus/$target"
    say "fuzzing $target for $seconds s"
    # What is new to it goes to the first folder; the second is in git. 10 s for one input would be a hang.
    "build/fuzz/bin/${target}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 \
      -artifact_prefix="$found/$target/" -verbosity=0 -print_final_stats=1 \
      "build/fuzz/corpus/$target" "tests/fuzz/corpus/$target" || broken+=("$target")
  done
  ((${#broken[@]} == 0)) ||
    die "inputs break ${broken[*]}: they are in $found; mend the reader and keep each in tests/fuzz/corpus"
}
