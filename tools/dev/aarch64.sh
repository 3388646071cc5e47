# ./dev aarch64: the tests that need no LibTorch (the target unit_tests), built for aarch64 and run by qemu.

# A Debian for aarch64 with the libraries of tools/packages.txt, unpacked and never run.
install_aarch64_sysroot() {
  local sysroot=$1 libraries
  libraries=$(entries tools/packages.txt | grep -E '^lib|-dev$' | grep -v fuse | paste -sd ,)
  [[ $(cat "$sysroot/.complete" 2>/dev/null) == "$libraries" ]] && return 0
  say "unpacking a Debian for aarch64 into $sysroot"
  rm -rf "$sysroot"
  quietly "the Debian for aarch64 could not be unpacked: mmdebstrap needs root and the network" \
    mmdebstrap --variant=extract --architectures=arm64 --include="$libraries" bookworm "$sysroot"
  stay_inside "$sysroot"
  # qemu looks for every path there first: /tmp and /dev would be empty.
  find "$sysroot" -mindepth 1 -maxdepth 1 ! -name usr ! -name 'lib*' -exec rm -rf {} +
  echo "$libraries" >"$sysroot/.complete"
}

# Not for qemu: it knows no robust mutexes, makes /proc/PID/stat up, by which a process is known on another node, and does
# not pass limits of the address space on. The simulator's schedules touch no hardware and would take hours.
not_for_qemu='^Lifeline\.|^RunDirectory\.ClaimsAtOnce|^Threads\.|^Simulator'

# The arguments are ctest's. qemu runs the programs that the tests start, too: the kernel starts it for each program for
# aarch64. That is set in a namespace of the tests' own (Linux 6.7), so that nothing else of this machine changes.
test_aarch64() {
  ((EUID == 0)) || {
    echo "skipped: needs root, for a Debian for aarch64"
    exit 77
  }
  install_packages tools/packages.txt
  install_packages tools/packages-aarch64.txt
  install_aarch64_sysroot build/aarch64-sysroot
  build aarch64 unit_tests
  QEMU_LD_PREFIX=$PWD/build/aarch64-sysroot exec tools/dev/with_qemu \
    ctest --test-dir build/aarch64 -j "$(nproc)" --output-on-failure --no-label-summary --no-tests=error -L '^unit$' \
    -E "$not_for_qemu" "$@"
}
