# A module is a folder with one library target. Its headers are included as "module/file.hpp", through an
# include folder that holds a link to this module only. So a target sees only the modules that it links,
# and a wrong include does not compile.
#
#   rekindle_module(NAME SOURCES a.cpp ... LINK target ...)        library rekindle_NAME
#   rekindle_test(NAME SOURCES a_test.cpp ... LINK target ... [LABELS all])
function(rekindle_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;PRIVATE_LINK" ${ARGN})
  set(include_folder ${CMAKE_BINARY_DIR}/modules/${name})
  file(MAKE_DIRECTORY ${include_folder})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${include_folder}/${name} SYMBOLIC)
  if(ARG_SOURCES)
    add_library(rekindle_${name} STATIC ${ARG_SOURCES})
    target_include_directories(rekindle_${name} PUBLIC $<BUILD_INTERFACE:${include_folder}>)
    target_link_libraries(rekindle_${name} PUBLIC ${ARG_LINK} PRIVATE ${ARG_PRIVATE_LINK})
  else()
    add_library(rekindle_${name} INTERFACE)
    target_include_directories(rekindle_${name} INTERFACE ${include_folder})
    target_link_libraries(rekindle_${name} INTERFACE ${ARG_LINK})
  endif()
endfunction()

# One test program; every TEST in it becomes a ctest of its own. LABELS all: only `./dev test --all` runs
# these tests. FILTER (as --gtest_filter) registers only some of the tests. Programs that need neither LibTorch nor
# processes of ours have the label `unit` in place of `quick`, and the target unit_tests builds them (`./dev sanitize`).
function(rekindle_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;FILTER" "SOURCES;LINK;LABELS;PROPERTIES" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS quick)
  endif()
  if(ARG_LABELS STREQUAL "quick" AND NOT ARG_LINK MATCHES "process_harness|rekindle_model|rekindle_torch")
    set(ARG_LABELS unit)
    if(NOT TARGET unit_tests)
      add_custom_target(unit_tests)
    endif()
    add_dependencies(unit_tests ${name})
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest GTest::gmock GTest::gtest_main)
  if(NOT ARG_FILTER)
    set(ARG_FILTER "*")
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_FILTER "${ARG_FILTER}"
    PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}" ${ARG_PROPERTIES})
endfunction()
