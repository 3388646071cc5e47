// Copies a pipe to a file that may be on storage that hangs, so that the process that prints does not wait.
#pragma once

#include "base/files.hpp"

namespace rekindle {

// Copies from the pipe `from` to `to` until all other ends of `from` are closed, or until `end` (a pipe) has
// a byte; then what is in `from` by now is still copied. An `end` whose other side is closed without a byte
// counts for nothing: the process that printed was killed, and its children may still print.
//
// If `to` takes nothing for a second, what does not fit into memory (a pipe of 256 KiB) is dropped until `to`
// takes something again; a line then says how many bytes are missing. Bytes that cannot be written (a full
// disk, a reader that is gone) are dropped without a line. Returns when all is written.
void relay(Fd from, const Fd& to, Fd end);

}  // namespace rekindle
