# ./dev lint: formatting, the import rule, clang-tidy.

# lint [--all | --since REVISION]
lint() {
  install_packages tools/packages-lint.txt
  local file files=() untidy failed=0
  while read -r file; do
    [[ ! -e $file ]] || files+=("$file") # git still lists files that were deleted but not committed
  done < <(git -c "safe.directory=$PWD" ls-files -co --exclude-standard -- '*.cpp' '*.hpp' '*.cu' '*.cuh')
  untidy=$(clang-format --dry-run "${files[@]}" 2>&1 | sed -n 's/:[0-9]*:[0-9]*: warning: .*//p' | sort -u)
  if [[ $untidy ]]; then
    failed=1
    say "not formatted; to mend it: clang-format -i" $untidy
  fi
  tools/check-imports --self-test || die "tools/check-imports does not find planted errors"
  tools/check-imports || failed=1
  tools/check-shape --self-test || die "tools/check-shape does not find planted errors"
  tools/check-shape || failed=1
  tools/check-changes --self-test || die "tools/check-changes does not find planted errors"
  tools/check-changes || failed=1
  tools/check-documents --self-test || die "tools/check-documents does not find wrong names"
  tools/check-documents || failed=1
  tools/package/compare.py --self-test || die "tools/package/compare.py does not find planted differences"
  # A separate build folder, because clang cannot read g++'s precompiled headers.
  configure lint
  # As ninja would before a build, if a CMakeLists.txt has changed.
  quietly "configuring build/lint failed" ninja -C build/lint build.ninja
  python3 tools/dev/tidy.py build/lint "$(jobs)" "$@" || failed=1
  ((failed == 0)) || die "lint found the problems above"
}
