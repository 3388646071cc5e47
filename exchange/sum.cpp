// The arithmetic of the tree. The arguments of finish_tree alone fix the order of additions of an element:
// chunk sizes, vector widths and fused loops only choose which elements are added at the same time.
#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "exchange/tree.hpp"
#include "exchange/tree_walk.hpp"

// The dynamic loader picks the widest version that the machine supports. Not with sanitizers: their run-times
// are not initialised yet at that time.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__x86_64__)
#define REKINDLE_CLONES
#else
#define REKINDLE_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif

namespace rekindle::exchange {
namespace {

using Parts = const float* const*;

// `out` may be one of the operands, element for element, so iterations are independent (ivdep).
REKINDLE_CLONES void sum2(const float* a, const float* b, float* out, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

REKINDLE_CLONES void sum4(Parts p, float* out, std::size_t count) {
  const float *a = p[0], *b = p[1], *c = p[2], *d = p[3];
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) out[i] = (a[i] + b[i]) + (c[i] + d[i]);
}

REKINDLE_CLONES void sum8(Parts p, float* out, std::size_t count) {
  const float *a = p[0], *b = p[1], *c = p[2], *d = p[3], *e = p[4], *f = p[5], *g = p[6], *h = p[7];
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i)
    out[i] = ((a[i] + b[i]) + (c[i] + d[i])) + ((e[i] + f[i]) + (g[i] + h[i]));
}

// An uneven tree is a list of additions in post-order. The list runs chunk by chunk, so that intermediate
// sums stay in L1.
struct Operand {
  Operand() = default;
  explicit Operand(int partial) : index(partial) {}
  bool temporary = false;
  int index = 0;  // of a temporary or of a partial
};
struct Addition {
  Operand left, right;
  int to = 0;  // temporary
};

std::vector<Addition> additions(const std::vector<LeafRange>& subtrees) {
  std::vector<Addition> list;
  walk_tree<Operand>(subtrees, [&list](const Operand& left, const Operand& right, int height) {
    // The temporary whose number is the stack's height is free, or is the left operand itself.
    list.push_back({left, right, height});
    Operand sum(height);
    sum.temporary = true;
    return sum;
  });
  return list;
}

void run_additions(const std::vector<Addition>& list, const std::vector<const float*>& partials, float* out,
                   std::size_t count) {
  constexpr std::size_t kChunk = 1024;                  // floats
  constexpr std::size_t kTemporaries = 32;              // the stack's height: levels of the tree
  alignas(64) float temporaries[kTemporaries][kChunk];  // a tree over V leaves uses log2(V) of them
  for (std::size_t first = 0; first < count; first += kChunk) {
    const std::size_t n = std::min(kChunk, count - first);
    const auto at = [&](Operand x) -> const float* {
      return x.temporary ? temporaries[x.index] : partials[x.index] + first;
    };
    for (std::size_t k = 0; k + 1 < list.size(); ++k)
      sum2(at(list[k].left), at(list[k].right), temporaries[list[k].to], n);
    // Only the last addition writes to `out`, after all others have read the chunk: `out` may be a partial.
    sum2(at(list.back().left), at(list.back().right), out + first, n);
  }
}

}  // namespace

void finish_tree(int leaves, const std::vector<LeafRange>& subtrees,
                 const std::vector<const float*>& partials, float* out, std::size_t count) {
  assert(!subtrees.empty() && subtrees.size() == partials.size());
  assert(subtrees.front().first == 0 && subtrees.back().first + subtrees.back().count == leaves);
  if (count == 0) return;
  const std::size_t n = partials.size();
  const bool even = std::all_of(subtrees.begin(), subtrees.end(),
                                [&](const LeafRange& tree) { return tree.count == subtrees.front().count; });
  if (n == 1) {
    if (out != partials[0]) std::memcpy(out, partials[0], count * sizeof(float));
  } else if (n == 2) {
    sum2(partials[0], partials[1], out, count);
  } else if (n == 4 && even) {
    sum4(partials.data(), out, count);
  } else if (n == 8 && even) {
    sum8(partials.data(), out, count);
  } else {
    run_additions(additions(subtrees), partials, out, count);
  }
}

void add_into(float* to, const float* from, std::size_t count) { sum2(to, from, to, count); }

}  // namespace rekindle::exchange
