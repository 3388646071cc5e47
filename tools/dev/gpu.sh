# ./dev gpu: the folder build/gpu, and build/gpu.tar.xz with it, for a machine with a GPU and a Python with torch 2.11, but without a compiler, this
# project's libraries or a network. build/gpu/run (tools/gpu/run) does the rest there.

# What is built: the program, and the tests that need a GPU.
gpu_targets=(rekindle gpu_tests)

# The archive is meant to travel where not much does.
gpu_limit_mib=50

# Libraries that the other machine has. glibc, because a second libc does not fit that machine's loader. libstdc++ and
# libgcc_s, because Ubuntu 24.04 has newer ones than Debian 12. LibTorch and CUDA, because they are in the Python
# packages torch and nvidia-*.
gpu_glibc='ld-linux.*|lib(c|m|mvec|dl|rt|pthread|resolv|util|anl|nsl)\.so\..*'
gpu_cuda='lib(cu(da|blas|dnn|fft|file|pti|rand|solver|sparse)|nccl|nv).*' # not libcu*, because of libcurl
gpu_there="$gpu_glibc|lib(stdc\+\+|gcc_s|gomp)\.so\..*|lib(torch|c10|caffe2).*|$gpu_cuda"

# carried_libraries PROGRAM: the files of the libraries that it needs and that the other machine does not have.
carried_libraries() {
  local name arrow file _
  # The programs find LibTorch through a descriptor that only a running rekindle has (app/CMakeLists.txt). LibTorch's
  # own CUDA libraries are not installed here, so ldd cannot find them.
  while read -r name arrow file _; do
    [[ $arrow == "=>" ]] || continue
    [[ $name =~ ^($gpu_there)$ ]] && continue
    [[ $file == /* ]] || die "$1 needs $name, which this machine does not have"
    echo "$file"
  done < <(LD_LIBRARY_PATH=build/torch/torch/lib ldd "$1" || die "ldd cannot read $1")
}

pack_gpu() {
  local made=build/cuda folder=build/gpu program library size_mib programs=()
  build cuda "${gpu_targets[@]}"
  # From the commands that link them, because bin/ may have tests of an earlier build that are not among the targets.
  mapfile -t programs < <(ninja -C "$made" -t commands "${gpu_targets[@]}" | sed -n 's|.* -o \(bin/[^/ ]*\) .*|\1|p')
  rm -rf "$folder"
  mkdir -p "$folder/bin" "$folder/lib"
  for program in "${programs[@]}"; do
    [[ -x $made/$program ]] || die "$made/$program was not built"
    strip -o "$folder/$program" "$made/$program"
    for library in $(carried_libraries "$made/$program"); do
      # Under the name that the programs ask for; the file behind that link has a longer name.
      [[ -e $folder/lib/${library##*/} ]] || cp -L "$library" "$folder/lib/"
    done
  done
  cp -rL "$made/bin/python" "$folder/bin/"
  rm -rf "$folder"/bin/python/rekindle/__pycache__
  strip "$folder"/bin/python/rekindle/*.so
  cp tools/gpu/* bench/gpu_baseline.py bench/gpu_input.py bench/images.py bench/commands.py "$folder/"
  # Of the last ./dev package, if there was one; otherwise the package of the build tree is tried.
  cp build/dist/rekindle-*.whl "$folder/" 2>/dev/null || true
  tar -C build -cf - gpu | xz -T0 -3 >"$folder.tar.xz"
  size_mib=$(($(du -s --apparent-size -B 1024 "$folder.tar.xz" | cut -f 1) / 1024 + 1))
  ((size_mib <= gpu_limit_mib)) ||
    die "$folder.tar.xz has $size_mib MiB, more than $gpu_limit_mib: remove tests from the target gpu_tests"
  say "$folder.tar.xz has $size_mib MiB: ${programs[*]#bin/}, and $(find "$folder/lib" -type f | wc -l) libraries"
  say "on the machine with the GPU: tar -xJf gpu.tar.xz && gpu/run --out DIR [PART...]"
}
