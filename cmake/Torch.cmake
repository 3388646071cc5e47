# LibTorch as the imported target rekindle_torch: for this project, and, installed, for find_package(rekindle).

# The version in the headers of the torch folder of a wheel, as in 2.11.0; empty if they have none.
function(rekindle_torch_version folder out)
  set(version "")
  set(header ${folder}/include/torch/headeronly/version.h)
  if(EXISTS ${header})
    file(READ ${header} text)
    if(text MATCHES "define TORCH_VERSION \\\\\n *\"([0-9.]+)\"")
      set(version ${CMAKE_MATCH_1})
    endif()
  endif()
  set(${out} "${version}" PARENT_SCOPE)
endfunction()

function(rekindle_import_torch folder cuda)
  add_library(rekindle_torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(rekindle_torch INTERFACE ${folder}/include ${folder}/include/torch/csrc/api/include)
  target_link_libraries(rekindle_torch INTERFACE torch_cpu c10 Threads::Threads)
  # Not target_link_directories(), which would add the absolute path to the programs.
  target_link_options(rekindle_torch INTERFACE -L${folder}/lib -Wl,--allow-shlib-undefined)
  if(cuda)
    find_package(CUDAToolkit REQUIRED)
    target_compile_definitions(rekindle_torch INTERFACE REKINDLE_CUDA=1)
    target_link_libraries(rekindle_torch INTERFACE -Wl,--no-as-needed torch_cuda c10_cuda -Wl,--as-needed CUDA::cudart)
  endif()
endfunction()
