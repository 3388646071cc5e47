// The code of this process in memory.
#pragma once

namespace rekindle {

// Reads all code of this program and of its libraries now. Its file may be on storage that hangs later, and a
// function that was never called would then be waited for. Under memory pressure the kernel may still drop
// the code.
void keep_code_in_memory();

}  // namespace rekindle
