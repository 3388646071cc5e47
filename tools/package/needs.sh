# What the portable build links with, in place of this system's: the glibc of an older Debian, and CAF as static libraries.
# The mark `.complete` says what it was made of: if that changes, it is made anew.

# Debian 11's glibc 2.31: its symbols have the versions of glibc 2.28, but for the few of cmake/portable/old_glibc.cpp.
install_sysroot() {
  local make=(mmdebstrap --variant=extract --include=libc6-dev bullseye)
  [[ $(cat "$1/.complete" 2>/dev/null) == "${make[*]}" ]] && return 0
  say "unpacking the C library of Debian 11 into $1"
  rm -rf "$1"
  quietly "the C library of Debian 11 could not be unpacked: mmdebstrap needs root and the network" "${make[@]}" "$1"
  stay_inside "$1"
  echo "${make[*]}" >"$1/.complete"
}

# From the source of Debian's package: libcaf-dev has no static libraries. One file of it needs <limits>.
install_caf() {
  local work=$PWD/$1.work version upstream options made_of
  version=$(dpkg-query -W -f '${source:Version}' libcaf-dev)
  upstream=$(dpkg-query -W -f '${source:Upstream-Version}' libcaf-dev)
  options=(-DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_STANDARD=17 -DCMAKE_POSITION_INDEPENDENT_CODE=ON
    "-DCMAKE_INSTALL_PREFIX=$PWD/$1"
    "-DCMAKE_CXX_FLAGS=-ffile-prefix-map=$work/source=caf -include limits -Wno-deprecated-declarations"
    -DCAF_BUILD_STATIC_ONLY=yes -DCAF_NO_UNIT_TESTS=yes -DCAF_NO_EXAMPLES=yes -DCAF_NO_TOOLS=yes -DCAF_NO_PYTHON=yes
    -DCAF_NO_OPENCL=yes -DCAF_NO_SUMMARY=yes)
  made_of="$version ${options[*]}"
  [[ $(cat "$1/.complete" 2>/dev/null) == "$made_of" ]] && return 0
  say "building CAF as static libraries in $1"
  rm -rf "$work" "$1"
  mkdir -p "$work/lists/partial"
  # The places that apt already knows, as places of sources.
  apt-get indextargets --format 'deb-src $(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' | sort -u >"$work/sources.list"
  local apt=(apt-get -q -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists"
    -o APT::Sandbox::User=root)
  quietly "apt-get has no sources" "${apt[@]}" update
  (cd "$work" && quietly "the source of CAF could not be fetched" \
    "${apt[@]}" source --download-only --tar-only "actor-framework=$version")
  mkdir "$work/source"
  tar -C "$work/source" --strip-components=1 -xf "$work/actor-framework_$upstream.orig.tar.gz"
  quietly "CAF could not be configured" cmake -S "$work/source" -B "$work/build" -G Ninja -Wno-dev "${options[@]}" \
    $(command -v ccache >/dev/null && echo -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  quietly "CAF could not be built" ninja -C "$work/build" -j "$(jobs)" install
  rm -rf "$work"
  echo "$made_of" >"$1/.complete"
}
