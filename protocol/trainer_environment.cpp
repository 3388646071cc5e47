#include "protocol/trainer_environment.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text.hpp"

namespace rekindle::protocol {
namespace {

constexpr std::string_view kTunables = "GLIBC_TUNABLES";
// Huge pages for the heap: a killed trainer counts as dead once its memory is taken apart, page by page.
constexpr std::string_view kHugePages = "glibc.malloc.hugetlb=";

std::string name_of(const std::string& entry) { return entry.substr(0, entry.find('=')); }

std::string value_of(const std::string& entry) {
  const auto at = entry.find('=');
  return at == std::string::npos ? "" : entry.substr(at + 1);
}

// Read by a library that computes.
bool is_numeric(const std::string& name) {
  constexpr std::string_view kPrefixes[] = {"MKL_", "ONEDNN_", "DNNL_", "OMP_", "KMP_"};
  const bool prefixed =
      std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
  return prefixed || name == "ATEN_CPU_CAPABILITY" || name == kTunables;
}

// What a trainer gets whatever anybody's environment says.
Environment fixed_variables(const Job& job) {
  Environment fixed = {str("OMP_NUM_THREADS=", job.threads), str("MKL_NUM_THREADS=", job.threads),
                       "MKL_DYNAMIC=FALSE", "OMP_DYNAMIC=FALSE", "OMP_THREAD_LIMIT=1000000",
                       // A site's or a user's wish for speed would be other bits.
                       "ONEDNN_DEFAULT_FPMATH_MODE=STRICT", "DNNL_DEFAULT_FPMATH_MODE=STRICT",
                       "NVIDIA_TF32_OVERRIDE=0", "HDF5_USE_FILE_LOCKING=FALSE",
                       "CUBLAS_WORKSPACE_CONFIG=:4096:8"};
  // Other instructions, other bits: what the CPU libraries may use is what the first attempt's CPU had.
  if (job.cpu_capability == "avx512" || job.cpu_capability == "avx2") {
    const bool wide = job.cpu_capability == "avx512";
    fixed.push_back(str("ATEN_CPU_CAPABILITY=", job.cpu_capability));
    fixed.push_back(str("ONEDNN_MAX_CPU_ISA=", wide ? "AVX512_CORE" : "AVX2"));
    fixed.push_back(str("MKL_CBWR=", wide ? "AVX512" : "AVX2"));
  }
  return fixed;
}

// Makes no numbers, but files, output, or a process that loads a library of its choice. Of a run directory
// that somebody else has written, a trainer must not take it.
bool has_side_effects(const std::string& name) {
  constexpr std::string_view kWords[] = {"DUMP", "TOOL", "DISPLAY", "FORMAT"};
  return std::ranges::any_of(kWords,
                             [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

bool has(const Environment& entries, const std::string& name) {
  return std::ranges::any_of(entries, [&](const std::string& entry) { return name_of(entry) == name; });
}

bool is_printable(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

// Tunables are separated by colons (ld.so(8)).
std::string with_huge_pages(const std::string& tunables) {
  std::string all;
  for (std::size_t begin = 0; begin < tunables.size();) {
    const std::size_t end = std::min(tunables.find(':', begin), tunables.size());
    const std::string each = tunables.substr(begin, end - begin);
    if (!each.empty() && !each.starts_with(kHugePages)) all += each + ":";
    begin = end + 1;
  }
  return str(all, kHugePages, "1");
}

}  // namespace

Environment numeric_variables(const Environment& environment, const Job& job) {
  const Environment fixed = fixed_variables(job);
  Environment recorded;
  for (const std::string& entry : environment) {
    const std::string name = name_of(entry);
    if (is_numeric(name) && !has_side_effects(name) && !has(fixed, name) && !has(recorded, name) &&
        is_printable(entry))
      recorded.push_back(entry);
  }
  std::ranges::sort(recorded);
  return recorded;
}

TrainerEnvironment trainer_environment(const Environment& inherited, const Job& job) {
  TrainerEnvironment made;
  const Environment fixed = fixed_variables(job);
  std::string left_out;
  for (const std::string& entry : inherited) {
    const std::string name = name_of(entry);
    if (name == "LD_PRELOAD" && !value_of(entry).empty()) {
      made.warnings.push_back(
          str(entry, " reaches the trainers: a library that is loaded this way may change the run's bits"));
    }
    if (has(fixed, name)) continue;
    if (!is_numeric(name)) {
      made.entries.push_back(entry);
    } else if (std::ranges::find(job.environment, entry) == job.environment.end()) {
      left_out += str(left_out.empty() ? "" : ", ", is_printable(entry) ? entry : name);
    }
  }
  if (!left_out.empty()) {
    made.warnings.push_back(
        str("trainers do not get ", left_out,
            ": the first attempt of this run did not have these values, and they may change the bits"));
  }
  std::string tunables;
  for (const std::string& entry : job.environment) {
    const std::string name = name_of(entry);
    if (!is_printable(entry) || has_side_effects(name)) continue;  // no attempt has recorded it
    if (name == kTunables)
      tunables = value_of(entry);
    else if (is_numeric(name) && !has(fixed, name))
      made.entries.push_back(entry);
  }
  made.entries.push_back(str(kTunables, "=", with_huge_pages(tunables)));
  made.entries.insert(made.entries.end(), fixed.begin(), fixed.end());
  return made;
}

}  // namespace rekindle::protocol
