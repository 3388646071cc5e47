# The portable build (`./dev package`): programs and librekindle.so that need nothing but glibc 2.28, except two that have
# libraries in lib/ beside them: rekindle-trainer LibTorch's, rekindle-board prometheus-cpp's, and both libstdc++. Of the C++
# run time only libgcc_s.so.1 is the system's: glibc cannot do without it, and Debian's needs glibc 2.35.
#
# What is compiled sees this system's headers. It is linked with the glibc of an older Debian (tools/package/needs.sh), whose
# symbols have the versions that old systems know; portable/old_glibc.cpp has the rest.
set(REKINDLE_SYSROOT ${CMAKE_SOURCE_DIR}/build/package-sysroot)
# -B: g++ searches the folders beside itself first.
set(system_libraries ${REKINDLE_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
add_link_options(--sysroot=${REKINDLE_SYSROOT} -B${system_libraries} -L${system_libraries}
  -L${REKINDLE_SYSROOT}/lib/${CMAKE_LIBRARY_ARCHITECTURE})
# This glibc has them apart from libc.
set(CMAKE_CXX_STANDARD_LIBRARIES "-lpthread -ldl -lrt -lm")
# No names of folders of the machine that builds are in the programs (__FILE__): LibTorch, CAF and the build folder are below
# this folder, too. CAF's own sources have an option of their own (tools/package/needs.sh).
set(no_folders -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:${no_folders}> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${no_folders}>)
#
#   rekindle_static(TARGET NAME target ...)       TARGET is libNAME.a, which needs the other targets
function(rekindle_static target name)
  find_library(REKINDLE_STATIC_${name} lib${name}.a REQUIRED PATH_SUFFIXES hdf5/serial)
  add_library(${target} STATIC IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${REKINDLE_STATIC_${name}}
    INTERFACE_LINK_LIBRARIES "${ARGN}")
endfunction()

set(rekindle_portable_sources ${CMAKE_CURRENT_LIST_DIR}/portable)
# Hidden: a library that a program loads, LibTorch for one, goes on to call the system's.
add_library(rekindle_old_glibc OBJECT ${rekindle_portable_sources}/old_glibc.cpp)
target_compile_options(rekindle_old_glibc PRIVATE -fvisibility=hidden -fno-builtin)

# When all targets are known.
function(rekindle_finish_portable)
  set(static rekindle rekindle-control rekindle_shared)
  if(REKINDLE_CUDA)
    list(APPEND static rekindle_cuda)
  endif()
  foreach(target ${static})
    target_link_options(${target} PRIVATE -static-libstdc++)
  endforeach()
  foreach(target ${static} rekindle-board rekindle-trainer rekindle_libstdcxx)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:rekindle_old_glibc>)
  endforeach()
  # actors/openssl_calls.cpp
  target_compile_definitions(rekindle-control PRIVATE REKINDLE_PORTABLE=1)
  foreach(name SSL_read SSL_write SSL_connect SSL_accept SSL_free SSL_CTX_use_certificate_chain_file
          SSL_CTX_use_PrivateKey_file SSL_CTX_load_verify_locations)
    target_link_options(rekindle-control PRIVATE -Wl,--wrap=${name})
  endforeach()
  # Debian's libstdc++, which they are linked with, needs a newer glibc; they are run with ours.
  foreach(target rekindle-board rekindle-trainer)
    target_link_options(${target} PRIVATE -Wl,--allow-shlib-undefined)
    add_dependencies(${target} rekindle_libstdcxx)
  endforeach()
  # Debian's static libraries are compiled for programs: a shared library cannot take stderr from libc for them.
  target_sources(rekindle_shared PRIVATE ${rekindle_portable_sources}/standard_streams.cpp)
  target_link_options(rekindle_shared PRIVATE -Wl,--wrap=stdout -Wl,--wrap=stderr)
  set_target_properties(rekindle_shared PROPERTIES SKIP_BUILD_RPATH ON)  # there is no lib/ beside it
endfunction()
cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL rekindle_finish_portable)

foreach(each JPEG::JPEG:jpeg PNG::PNG:png16 ZLIB::ZLIB:z)
  string(REGEX MATCH "^(.*):([a-z0-9]+)$" all ${each})
  find_library(REKINDLE_STATIC_${CMAKE_MATCH_2} lib${CMAKE_MATCH_2}.a REQUIRED)
  set_target_properties(${CMAKE_MATCH_1} PROPERTIES IMPORTED_LOCATION ${REKINDLE_STATIC_${CMAKE_MATCH_2}}
    IMPORTED_LOCATION_RELEASE ${REKINDLE_STATIC_${CMAKE_MATCH_2}})
endforeach()

rekindle_static(rekindle_xxhash xxhash)
set(hash rekindle_xxhash)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
  # Debian's static xxHash has no functions that choose instructions at run time; with SSE2 alone it is three times slower.
  set(hash rekindle_xxhash_dispatch)
  add_library(rekindle_xxhash_dispatch STATIC ${rekindle_portable_sources}/xxhash_avx2.cpp
    ${rekindle_portable_sources}/xxhash_dispatch.cpp)
  set_source_files_properties(${rekindle_portable_sources}/xxhash_avx2.cpp PROPERTIES COMPILE_OPTIONS -mavx2)
  target_link_libraries(rekindle_xxhash_dispatch PUBLIC rekindle_xxhash)
endif()
set_target_properties(PkgConfig::XXHASH PROPERTIES INTERFACE_LINK_LIBRARIES ${hash})

# Debian's HDF5 reads from S3 with curl, which needs 30 libraries. No program here refers to these members of libhdf5.a.
rekindle_static(rekindle_aec aec)
rekindle_static(rekindle_sz sz rekindle_aec)
rekindle_static(rekindle_hdf5 hdf5 rekindle_sz ZLIB::ZLIB ${CMAKE_DL_LIBS})
target_include_directories(rekindle_hdf5 INTERFACE ${HDF5_INCLUDE_DIRS})
rekindle_static(rekindle_crypto crypto ${CMAKE_DL_LIBS} Threads::Threads)
set(REKINDLE_HDF5 rekindle_hdf5)
rekindle_static(rekindle_ssl ssl rekindle_crypto)
set(REKINDLE_CRYPTO rekindle_crypto)
set(REKINDLE_SSL rekindle_ssl)

add_library(rekindle_spdlog INTERFACE IMPORTED GLOBAL)
target_compile_definitions(rekindle_spdlog INTERFACE SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)
target_link_libraries(rekindle_spdlog INTERFACE Threads::Threads)
set(REKINDLE_SPDLOG rekindle_spdlog)
# RPATH in place of RUNPATH: lib/ of the wheel comes before LD_LIBRARY_PATH, where a cluster's modules have an older
# libstdc++.
add_link_options(-Wl,--as-needed -Wl,--disable-new-dtags)

# libstdc++.so.6 for libraries in lib/: Debian's needs glibc 2.36.
function(rekindle_kit_file name out)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${name} OUTPUT_VARIABLE file OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT EXISTS ${file})
    message(FATAL_ERROR "no ${name}: install the packages of tools/packages-package.txt")
  endif()
  set(${out} ${file} PARENT_SCOPE)
endfunction()
rekindle_kit_file(libstdc++_pic.a objects)
rekindle_kit_file(libstdc++_pic.map versions)
add_library(rekindle_libstdcxx SHARED EXCLUDE_FROM_ALL ${rekindle_portable_sources}/condition_variable.cpp)
set_target_properties(rekindle_libstdcxx PROPERTIES PREFIX "" OUTPUT_NAME libstdc++ SUFFIX .so.6 NO_SONAME ON
  SKIP_BUILD_RPATH ON)
target_link_options(rekindle_libstdcxx PRIVATE -nodefaultlibs -Wl,-soname,libstdc++.so.6 -Wl,--version-script=${versions}
  -Wl,--whole-archive ${objects} -Wl,--no-whole-archive)
# The kit leaves out what is for compatibility only, of which istream needs a part: that is in libstdc++.a.
target_link_libraries(rekindle_libstdcxx PRIVATE -l:libstdc++.a m pthread c gcc_s gcc)
