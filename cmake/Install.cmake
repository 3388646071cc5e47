# `cmake --install BUILD --prefix PREFIX`, and what find_package(rekindle) finds there:
#
#   bin/rekindle        a link to the program in libexec/rekindle
#   libexec/rekindle/   the programs, and lib, a link to LibTorch: the folder that a run holds open; build, a hash; and
#                       python/, the Python package
#   include/rekindle/   trainer.hpp, and the headers of the modules that a trainer program is built from
#   share/              rekindle(1), completion for bash, zsh and fish, and in doc/rekindle/ the licence
#   lib/rekindle/       these modules as static libraries, and in cmake/ the package
#
# The folder may be moved as a whole. A program that was built with the package must be built again then.
include(CMakePackageConfigHelpers)

set(modules base device run view data checkpoint exchange optim task protocol trainer model app)
set(programs libexec/rekindle)
set(package lib/rekindle/cmake)

install(TARGETS rekindle rekindle-control rekindle-trainer rekindle-board RUNTIME DESTINATION ${programs})
install(TARGETS rekindle_shared LIBRARY DESTINATION ${programs}/python/rekindle)
if(REKINDLE_CUDA)
  install(TARGETS rekindle_cuda LIBRARY DESTINATION ${programs}/python/rekindle)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/rekindle DESTINATION ${programs}/python
        FILES_MATCHING PATTERN "*.py" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)
file(REAL_PATH ${REKINDLE_TORCH}/lib torch_libraries)
install(CODE "
  set(prefix \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
  file(MAKE_DIRECTORY \"\${prefix}/bin\")
  file(CREATE_LINK ../${programs}/rekindle \"\${prefix}/bin/rekindle\" SYMBOLIC)
  file(CREATE_LINK \"${torch_libraries}\" \"\${prefix}/${programs}/lib\" SYMBOLIC)
  # What the program says about itself, where the packages have it, too (tools/package/tree.py).
  function(rekindle_write folder file)
    file(MAKE_DIRECTORY \"\${prefix}/share/\${folder}\")
    execute_process(COMMAND \"\${prefix}/${programs}/rekindle\" \${ARGN} COMMAND_ERROR_IS_FATAL ANY
                    OUTPUT_FILE \"\${prefix}/share/\${folder}/\${file}\")
  endfunction()
  rekindle_write(man/man1 rekindle.1 manual)
  rekindle_write(bash-completion/completions rekindle completion bash)
  rekindle_write(zsh/vendor-completions _rekindle completion zsh)
  rekindle_write(fish/vendor_completions.d rekindle.fish completion fish)
  # rekindle-trainer has all the static libraries, so its hash is that of the package. A program that was built with
  # the package compares it.
  file(SHA256 \"\${prefix}/${programs}/rekindle-trainer\" build)
  file(WRITE \"\${prefix}/${programs}/build\" \"\${build}\")
  file(WRITE \"\${prefix}/${package}/rekindleBuild.cmake\" \"set(rekindle_build \${build})\\n\")")

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION share/doc/rekindle)
foreach(module ${modules})
  list(APPEND libraries rekindle_${module})
endforeach()
# The headers include each other as "rekindle/data/dataset.hpp": a project may have a data/dataset.hpp of its own. Those
# that are there already stay as they are, so that programs are not built again.
list(JOIN modules "|" any_module)
install(CODE "
  set(to \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/include/rekindle\")
  function(rekindle_install_header from to)
    file(READ \"\${from}\" text)
    string(REGEX REPLACE \"#include \\\"(${any_module})/\" \"#include \\\"rekindle/\\\\1/\" text \"\${text}\")
    set(there \"\")
    if(EXISTS \"\${to}\")
      file(READ \"\${to}\" there)
    endif()
    if(NOT text STREQUAL there)
      file(WRITE \"\${to}\" \"\${text}\")
    endif()
  endfunction()
  foreach(module ${modules})
    file(GLOB_RECURSE headers RELATIVE \"${PROJECT_SOURCE_DIR}\" \"${PROJECT_SOURCE_DIR}/\${module}/*.hpp\")
    foreach(header \${headers})
      rekindle_install_header(\"${PROJECT_SOURCE_DIR}/\${header}\" \"\${to}/\${header}\")
    endforeach()
  endforeach()
  rekindle_install_header(\"${PROJECT_SOURCE_DIR}/include/rekindle/trainer.hpp\" \"\${to}/trainer.hpp\")")
set_target_properties(rekindle_trainer_program PROPERTIES EXPORT_NAME trainer_program)
install(TARGETS ${libraries} rekindle_trainer_program EXPORT rekindle ARCHIVE DESTINATION lib/rekindle)
install(EXPORT rekindle NAMESPACE rekindle:: FILE rekindleTargets.cmake DESTINATION ${package})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/rekindleConfig.cmake.in
  ${PROJECT_BINARY_DIR}/rekindleConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rekindleConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rekindleConfig.cmake ${PROJECT_BINARY_DIR}/rekindleConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/Torch.cmake DESTINATION ${package})
