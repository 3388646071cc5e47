# Writes a block of C++ of a document to FOLDER/NAME, exactly as it is there: the block behind the line
# <!-- compiled: NAME -->.
function(rekindle_page_code page name folder)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page})
  file(READ ${page} text)
  string(FIND "${text}" "<!-- compiled: ${name} -->" begin)
  string(SUBSTRING "${text}" ${begin} -1 block)
  string(FIND "${block}" "```cpp\n" begin)
  math(EXPR begin "${begin} + 7")
  string(SUBSTRING "${block}" ${begin} -1 block)
  string(FIND "${block}" "```\n" end)
  string(SUBSTRING "${block}" 0 ${end} block)
  file(CONFIGURE OUTPUT ${folder}/${name} CONTENT "${block}" @ONLY)
endfunction()
