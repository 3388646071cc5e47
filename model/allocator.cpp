#include "model/allocator.hpp"

#include <malloc.h>

namespace rekindle::model {

void tune_allocator() {
  mallopt(M_MMAP_MAX, 0);         // big blocks come from the heap, which is reused
  mallopt(M_TRIM_THRESHOLD, -1);  // and the heap never shrinks
  mallopt(M_TOP_PAD, 64 << 20);   // few, large extensions
  mallopt(M_ARENA_MAX, 1);        // other threads' heaps are too small for big blocks: they would mmap
}

}  // namespace rekindle::model
