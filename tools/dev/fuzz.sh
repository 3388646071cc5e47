# ./dev fuzz: libFuzzer on what reads bytes of strangers.

# fuzz [SECONDS]
fuzz() {
  local seconds=${1:-60} found=build/fuzz/found
  install_packages tools/packages-fuzz.txt
  build fuzz manifest_fuzz
  mkdir -p "$found" build/fuzz/corpus
  # What is new to it goes to the first folder; the second is in git. 10 s for one input would be a hang.
  build/fuzz/bin/manifest_fuzz -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 \
    -artifact_prefix="$found/" -verbosity=0 -print_final_stats=1 build/fuzz/corpus tests/fuzz/corpus/manifest ||
    die "an input breaks the manifest reader: it is in $found; mend the reader and keep it in tests/fuzz/corpus/manifest"
}
