# The portable build (`./dev package`): programs and librekindle.so that need nothing but glibc, except rekindle-control,
# which has CAF, OpenSSL and libstdc++ beside it in lib/ (Debian's libcaf-dev has no static library).
function(rekindle_static target name)
  find_library(REKINDLE_STATIC_${name} lib${name}.a REQUIRED PATH_SUFFIXES hdf5/serial)
  target_link_libraries(${target} INTERFACE ${REKINDLE_STATIC_${name}})
endfunction()

foreach(each JPEG::JPEG:jpeg PNG::PNG:png16 ZLIB::ZLIB:z)
  string(REGEX MATCH "^(.*):([a-z0-9]+)$" all ${each})
  find_library(REKINDLE_STATIC_${CMAKE_MATCH_2} lib${CMAKE_MATCH_2}.a REQUIRED)
  set_target_properties(${CMAKE_MATCH_1} PROPERTIES IMPORTED_LOCATION ${REKINDLE_STATIC_${CMAKE_MATCH_2}}
    IMPORTED_LOCATION_RELEASE ${REKINDLE_STATIC_${CMAKE_MATCH_2}})
endforeach()
find_library(REKINDLE_STATIC_xxhash libxxhash.a REQUIRED)
set_target_properties(PkgConfig::XXHASH PROPERTIES INTERFACE_LINK_LIBRARIES ${REKINDLE_STATIC_xxhash})

# Debian's HDF5 can read from S3, and for that needs curl with 30 libraries. Nothing here opens such a file.
add_library(rekindle_hdf5 INTERFACE IMPORTED GLOBAL)
add_library(rekindle_crypto INTERFACE IMPORTED GLOBAL)
add_library(rekindle_no_curl STATIC ${CMAKE_CURRENT_LIST_DIR}/no_curl.cpp)
target_include_directories(rekindle_hdf5 INTERFACE ${HDF5_INCLUDE_DIRS})
foreach(name hdf5 sz aec)
  rekindle_static(rekindle_hdf5 ${name})
endforeach()
rekindle_static(rekindle_crypto crypto)
target_link_libraries(rekindle_hdf5 INTERFACE rekindle_no_curl ZLIB::ZLIB rekindle_crypto ${CMAKE_DL_LIBS})
set(REKINDLE_HDF5 rekindle_hdf5)
set(REKINDLE_CRYPTO rekindle_crypto)
set(REKINDLE_SPDLOG spdlog::spdlog_header_only)
add_link_options(-Wl,--as-needed)
