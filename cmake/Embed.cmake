# Writes C++ that holds files as text: cmake -DOUT=FILE -DFILES="a;b" -P Embed.cmake
set(rows "")
set(text "// Made by cmake/Embed.cmake.\n#include \"board/parts.hpp\"\n\nnamespace rekindle::board {\nnamespace {\n\n")
set(number 0)
foreach(path ${FILES})
  get_filename_component(name ${path} NAME)
  file(READ ${path} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" escaped "${hex}")
  # Pieces: compilers limit the length of a literal.
  string(REGEX REPLACE "((\\\\x[0-9a-f][0-9a-f])(\\\\x[0-9a-f][0-9a-f])?(\\\\x[0-9a-f][0-9a-f])?(\\\\x[0-9a-f][0-9a-f])?(\\\\x[0-9a-f][0-9a-f])?(\\\\x[0-9a-f][0-9a-f])?(\\\\x[0-9a-f][0-9a-f])?(\\\\x[0-9a-f][0-9a-f])?)"
         "\"\\1\"\n" escaped "${escaped}")
  file(SIZE ${path} bytes)
  string(APPEND text "constexpr char kPart${number}[] =\n${escaped};\n")
  string(APPEND rows "    {\"${name}\", {kPart${number}, ${bytes}}},\n")
  math(EXPR number "${number} + 1")
endforeach()
string(APPEND text "constexpr Part kParts[] = {\n${rows}};\n\n}  // namespace\n\n")
string(APPEND text "std::span<const Part> parts() { return kParts; }\n\n}  // namespace rekindle::board\n")
file(WRITE ${OUT} "${text}")
