// The code of this process in memory.
#pragma once

namespace rekindle {

// From now on, this process reads no page of its program, or of a library in the program's folder, from their
// files. The files may be on storage that hangs later, and the kernel may drop pages at any time, and does so
// if another process opens the file and its storage says that it has changed. Costs as much memory as program
// and libraries have. To be called while the process has one thread.
void keep_code_in_memory();

}  // namespace rekindle
