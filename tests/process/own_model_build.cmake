# Installs the package of BUILD, moves it, and builds EXAMPLE with it in WORK, with the code of PAGE in place of the
# files of these names, and ODD. All paths have a space. A program needs the sanitizers of the static libraries.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE failed OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(failed)
    message(FATAL_ERROR "${ARGV}\n${text}")
  endif()
endfunction()

set(flags "")
if(SANITIZE)
  set(flags -fsanitize=${SANITIZE})
endif()
file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix "${WORK}/first place")
file(RENAME "${WORK}/first place" "${WORK}/moved here")
file(COPY ${EXAMPLE}/ DESTINATION "${WORK}/my model")
file(COPY ${PAGE}/ DESTINATION "${WORK}/my model")
run(${CMAKE_COMMAND} -G Ninja -S "${WORK}/my model" -B "${WORK}/my model/build" "-DCMAKE_PREFIX_PATH=${WORK}/moved here"
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} "-DCMAKE_CXX_FLAGS=${flags}")
run(${CMAKE_COMMAND} --build "${WORK}/my model/build")
file(COPY ${ODD}/ DESTINATION "${WORK}/odd models")
# A project may have headers of the same names as the package's.
file(WRITE "${WORK}/odd models/base/result.hpp" "#error this is not the package's header\n")
run(${CMAKE_COMMAND} -G Ninja -S "${WORK}/odd models" -B "${WORK}/odd models/build"
    "-DCMAKE_PREFIX_PATH=${WORK}/moved here" -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} "-DCMAKE_CXX_FLAGS=${flags}")
run(${CMAKE_COMMAND} --build "${WORK}/odd models/build")
