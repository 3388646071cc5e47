# Third-party libraries as imported targets: Debian's packages, except LibTorch. The CMake package of the
# torch wheel fails without a CUDA toolkit, so its targets are written by hand.
find_package(Threads REQUIRED)
find_package(GTest REQUIRED)
find_package(spdlog REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

# HDF5 (serial, C API). The first name is a link that Debian's package makes when it is configured.
pkg_search_module(HDF5 REQUIRED IMPORTED_TARGET hdf5 hdf5-serial)

# What the modules link: shared libraries, or in the portable build static ones.
if(REKINDLE_PORTABLE)
  include(${CMAKE_CURRENT_LIST_DIR}/Portable.cmake)
else()
  set(REKINDLE_HDF5 PkgConfig::HDF5)
  set(REKINDLE_CRYPTO OpenSSL::Crypto)
  set(REKINDLE_SSL OpenSSL::SSL)
  set(REKINDLE_SPDLOG spdlog::spdlog)
endif()

# CAF 0.17 with its io and openssl modules; the portable build has libraries of its own (tools/package/needs.sh)
if(REKINDLE_PORTABLE)
  set(suffix _static)
endif()
find_path(CAF_INCLUDE_DIR caf/all.hpp REQUIRED)
find_library(CAF_CORE caf_core${suffix} REQUIRED)
find_library(CAF_IO caf_io${suffix} REQUIRED)
find_library(CAF_OPENSSL caf_openssl${suffix} REQUIRED)
unset(suffix)
add_library(rekindle_caf INTERFACE)
target_include_directories(rekindle_caf SYSTEM INTERFACE ${CAF_INCLUDE_DIR})
target_link_libraries(rekindle_caf INTERFACE ${CAF_OPENSSL} ${CAF_IO} ${CAF_CORE} ${REKINDLE_SSL} ${REKINDLE_CRYPTO}
                      Threads::Threads)

file(STRINGS ${CAF_INCLUDE_DIR}/caf/config.hpp caf_version REGEX "^#define CAF_VERSION ")
string(REGEX MATCH "[0-9]+$" caf_version "${caf_version}")
math(EXPR caf_minor "${caf_version} / 100 % 100")
math(EXPR caf_patch "${caf_version} % 100")
math(EXPR caf_version "${caf_version} / 10000")
string(APPEND caf_version ".${caf_minor}.${caf_patch}")

# LibTorch from the torch wheel, unpacked by ./dev setup
set(torch "")
if(REKINDLE_MODELS)
  set(REKINDLE_TORCH ${CMAKE_SOURCE_DIR}/build/torch/torch CACHE PATH "The torch folder of an unpacked torch wheel")
  if(NOT EXISTS ${REKINDLE_TORCH}/lib/libtorch_cpu.so)
    message(FATAL_ERROR "no LibTorch in ${REKINDLE_TORCH}: run ./dev setup")
  endif()
  include(${CMAKE_CURRENT_LIST_DIR}/Torch.cmake)
  rekindle_torch_version(${REKINDLE_TORCH} REKINDLE_TORCH_VERSION)
  rekindle_import_torch(${REKINDLE_TORCH} ${REKINDLE_CUDA_MODELS})
  set(torch "LibTorch ${REKINDLE_TORCH_VERSION}, ")
  # Programs load LibTorch only from lib/ beside them, because a run keeps copies of both
  # (app/kept_program.cpp), and other folders near the run directory may belong to another user. In the build
  # tree, which may be moved, lib is a link.
  file(RELATIVE_PATH torch_from_bin ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${REKINDLE_TORCH}/lib)
  file(MAKE_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  file(CREATE_LINK ${torch_from_bin} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/lib SYMBOLIC)
  list(APPEND CMAKE_BUILD_RPATH "$ORIGIN/lib")
endif()
# For `rekindle --version`.
set(REKINDLE_BUILT_WITH "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, ${torch}\
CAF ${caf_version}, HDF5 ${HDF5_VERSION}, OpenSSL ${OPENSSL_VERSION}, spdlog ${spdlog_VERSION}, xxHash ${XXHASH_VERSION}, \
zlib ${ZLIB_VERSION_STRING}, libpng ${PNG_VERSION_STRING}")
