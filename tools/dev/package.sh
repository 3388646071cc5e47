# ./dev package: in build/dist, the Python wheel, a Debian package, a tarball that works wherever it is unpacked, and an
# image for containers. They need nothing but glibc (and the wheel a Python with torch). The wheel, and the tree of the
# others, have a library for GPUs too, which is opened only where a GPU is asked for.

# Before hundreds of megabytes are fetched: mmdebstrap mounts in the systems that it makes.
needs_mounts() {
  unshare --mount true 2>/dev/null ||
    die "./dev package makes small Debian systems: it needs root, and a container that may mount (--privileged)"
}

package() {
  local tools=build/package-tools dist=build/dist version name
  # With it, ccache would compile with relative paths, and a build without ccache would not have the same strings (__FILE__).
  unset CCACHE_BASEDIR
  install_packages tools/packages-package.txt
  # Packages contain parts of CUDA, and say of which version.
  install_pinned_cuda
  install_sysroot build/package-sysroot
  install_caf build/package-caf
  # A folder that was configured with another CUDA compiler, or without one, is made anew.
  grep -qs "^CMAKE_CUDA_COMPILER:[A-Z]*=$CUDACXX\$" build/package/CMakeCache.txt || rm -rf build/package
  configure package
  build package rekindle rekindle_libstdcxx
  install_package_tools "$tools"
  # Times of the commit: one build gives the same bytes whenever it is packed.
  SOURCE_DATE_EPOCH=$(git -c "safe.directory=$PWD" log -1 --format=%ct) || die "a package is made from a checkout with git"
  export SOURCE_DATE_EPOCH
  version=$("$tools/bin/python" -c 'import sys; sys.path.append("tools/package"); import binaries; print(binaries.version())')
  name=rekindle-$version-linux-$(uname -m)
  rm -rf "$dist"
  mkdir "$dist"

  say "packing the wheel"
  "$tools/bin/python" tools/package/wheel_folder.py build/package build/package-wheel || die "the wheel could not be put together"
  quietly "the wheel could not be packed" "$tools/bin/wheel" pack build/package-wheel --dest-dir "$dist"
  say "packing the tarball"
  "$tools/bin/python" tools/package/tree.py build/package "build/package-tree/$name" || die "the tree could not be put together"
  cp "build/package-tree/$name/share/doc/rekindle/sbom.cdx.json" "$dist/$name.cdx.json"
  pack_tar build/package-tree "$name" "$dist/$name.tar.xz"
  say "packing the Debian package"
  "$tools/bin/python" tools/package/deb_folder.py "build/package-tree/$name" build/package-deb ||
    die "the Debian package could not be put together"
  quietly "the Debian package could not be packed" \
    dpkg-deb -Zzstd -z15 --root-owner-group --build build/package-deb "$dist/rekindle_${version}_$(dpkg --print-architecture).deb"
  say "packing the image"
  pack_image "$dist" "$version" "$name" "$tools"
  (cd "$dist" && sha256sum -- * >SHA256SUMS)
  ls -l "$dist"
  test_packages "$dist" "$name"
}

# Packs twice, and compares. The second build is made anew, without ccache; what is only unpacked (tools, CUDA's compiler, the
# C library to link with) is that of the first one. Both are in the same folder, build/package.
package_twice() {
  local first=build/dist-first status=0
  package
  rm -rf "$first"
  cp -al build/dist "$first"
  rm -rf build/package build/package-caf
  say "building once more, without ccache"
  export CCACHE_DISABLE=1
  package
  say "comparing $first and build/dist"
  build/package-tools/bin/python tools/package/compare.py "$first" build/dist || status=$?
  case $status in
    0) say "the two builds have the same bytes" ;;
    3) say "the two builds have the same bytes but for the image, which has newer packages of Debian" ;;
    2) die "the two builds differ, see above" ;;
    *) die "the packages could not be compared" ;;
  esac
}

install_package_tools() {
  [[ -e $1/.complete && ! tools/package-requirements.txt -nt $1/.complete ]] && return 0
  say "installing the tools that pack a wheel and list the parts of a package"
  python3 -m venv "$1" || die "python3 cannot make a virtual environment"
  "$1/bin/python" -m pip install -q --no-cache-dir -r tools/package-requirements.txt ||
    die "the tools of tools/package-requirements.txt could not be installed"
  touch "$1/.complete"
}

# plain_tar FOLDER NAME...: an archive on stdout, the same bytes for the same files, whatever the umask was.
plain_tar() {
  tar -C "$1" --sort=name --mode=u=rwX,go=rX --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu -cf - "${@:2}"
}

# pack_tar FOLDER NAME FILE: the same bytes on any machine, which those of one thread would not be.
pack_tar() {
  plain_tar "$1" "$2" |
    xz -T2 -6 --block-size=67108864 >"$3" || die "$3 could not be packed"
}

# pack_image DIST VERSION NAME TOOLS: a small Debian with the package in it, as an archive in OCI's format, and how Apptainer makes
# an image of it.
pack_image() {
  local deb=$1/rekindle_$2_$(dpkg --print-architecture).deb work=build/package-image layout=build/package-image/layout
  rm -rf "$work"
  mkdir -p "$work"
  quietly "the image's system could not be made: mmdebstrap needs root and the network" \
    mmdebstrap --variant=apt --dpkgopt='path-exclude=/usr/share/locale/*' \
    --customize-hook="copy-in $deb /tmp" --customize-hook="chroot \"\$1\" dpkg -i /tmp/${deb##*/}" \
    --customize-hook="rm \"\$1/tmp/${deb##*/}\"" --customize-hook='rm -f "$1/etc/hostname" "$1/etc/resolv.conf"' bookworm "$work/system.tar"
  "$4/bin/python" tools/package/sbom.py "$work/system.tar" "$1/$3.oci.cdx.json" || die "the image's parts could not be listed"
  umoci init --layout "$layout"
  umoci new --image "$layout:$2"
  quietly "the image could not be made" umoci raw add-layer --image "$layout:$2" \
    --history.created "$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)" "$work/system.tar"
  quietly "the image could not be made" umoci config --image "$layout:$2" --no-history \
    --created "$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)" --author "The Rekindle authors" --config.entrypoint rekindle \
    --config.env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin --config.workingdir /work
  quietly "the image could not be made" umoci gc --layout "$layout"
  # umoci's tag cannot have a name in it, and podman takes the tag for the name.
  sed -i "s/\"org.opencontainers.image.ref.name\":\"$2\"/\"org.opencontainers.image.ref.name\":\"rekindle:$2\"/" "$layout/index.json"
  # By their names: Apptainer refuses an archive that has its own folder in it.
  plain_tar "$layout" blobs index.json oci-layout >"$1/$3.oci.tar" || die "the image could not be packed"
  sed -e "s/@ARCHIVE@/$3.oci.tar/" -e "s/@VERSION@/$2/" tools/package/rekindle.def >"$1/$3.def"
}

# What was packed, in environments of their own. In a subshell, so that the unpacked tarball goes whatever fails, and in
# /var/tmp, because /tmp may be memory.
test_packages() (
  python=${REKINDLE_ORACLE_PYTHON:-$(python_folder)/bin/python3}
  script=$PWD/tests/python/everything.py
  folder=$(mktemp -d /var/tmp/rekindle-package.XXXXXX)
  trap 'rm -rf "$folder"' EXIT
  say "testing the tarball"
  tar -C "$folder" -xf "$1/$2.tar.xz"
  # Moved, and without a PATH.
  mv "$folder/$2" "$folder/moved here"
  (cd "$folder" && env -i HOME="$folder" "$folder/moved here/bin/rekindle" selftest) || die "the tarball does not work"
  if ! "$python" -c 'import numpy, torch' 2>/dev/null; then
    say "neither the wheel nor scripts are tested, because there is no Python with torch: ./dev python installs one"
    exit
  fi
  (cd "$folder" && env -i HOME="$folder" REKINDLE_PYTHON="$python" "$folder/moved here/bin/rekindle" local --run-dir run \
    --workers 2 "$script" steps=20) || die "the tarball does not train a script"
  (cd "$folder" && PYTHONPATH="$folder/moved here/libexec/rekindle/python" "$python" -c \
    'import rekindle; print(rekindle.open("run").status()["state"])') || die "the tarball's Python package does not work"
  say "testing the wheel"
  "$python" tests/python/wheel.py "$1"/*.whl || die "the wheel does not work"
)
