#include "protocol/trainer_environment.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text.hpp"

namespace rekindle::protocol {
namespace {

constexpr std::string_view kTunables = "GLIBC_TUNABLES";
constexpr std::string_view kPlacesOfGcc = "GOMP_CPU_AFFINITY";
// It would take the place of --precision.
constexpr std::string_view kTf32Override = "NVIDIA_TF32_OVERRIDE";
// Huge pages for the heap: a killed trainer counts as dead only after the kernel has released its memory,
// page by page.
constexpr std::string_view kHugePages = "glibc.malloc.hugetlb=";
// What model::tune_allocator() sets in a C++ trainer, for an interpreter: see there.
constexpr std::string_view kHeapOfPython =
    "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=0x7fffffffffff:glibc.malloc.top_pad=0x4000000:"
    "glibc.malloc.arena_max=1:";

std::string name_of(const std::string& entry) { return entry.substr(0, entry.find('=')); }

std::string value_of(const std::string& entry) {
  const auto at = entry.find('=');
  return at == std::string::npos ? "" : entry.substr(at + 1);
}

// Whether a numeric library reads the variable.
bool is_numeric(const std::string& name) {
  constexpr std::string_view kPrefixes[] = {"MKL_", "ONEDNN_", "DNNL_", "OMP_", "KMP_"};
  const bool prefixed =
      std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
  return prefixed || name == "ATEN_CPU_CAPABILITY" || name == kTunables || name == kPlacesOfGcc;
}

// Variables with fixed values, independent of the inherited environment.
Environment fixed_variables(const Job& job) {
  Environment fixed = {str("OMP_NUM_THREADS=", job.threads), str("MKL_NUM_THREADS=", job.threads),
                       "MKL_DYNAMIC=FALSE", "OMP_DYNAMIC=FALSE", "OMP_THREAD_LIMIT=1000000",
                       // A faster mode set by a site or a user would change the bits.
                       "ONEDNN_DEFAULT_FPMATH_MODE=STRICT", "DNNL_DEFAULT_FPMATH_MODE=STRICT",
                       // Each process would be bound to the first places of its mask, which is the same one
                       // for all trainers of a node.
                       "OMP_PROC_BIND=FALSE", "KMP_AFFINITY=disabled", "HDF5_USE_FILE_LOCKING=FALSE",
                       "CUBLAS_WORKSPACE_CONFIG=:4096:8"};
  if (job.precision != "tf32") fixed.push_back(str(kTf32Override, "=0"));
  // The order of a Python set of texts depends on it.
  if (is_script(job)) fixed.emplace_back("PYTHONHASHSEED=0");
  // Other CPU instructions give other bits, so the libraries may use only the instructions of the CPU of the
  // first attempt.
  if (job.cpu_capability == "avx512" || job.cpu_capability == "avx2") {
    const bool wide = job.cpu_capability == "avx512";
    fixed.push_back(str("ATEN_CPU_CAPABILITY=", job.cpu_capability));
    // AVX512_CORE has no instructions for bfloat16: oneDNN would convert each value.
    const std::string isa = wide ? "AVX512_CORE" : "AVX2";
    fixed.push_back(str("ONEDNN_MAX_CPU_ISA=", job.bf16_isa.empty() ? isa : job.bf16_isa));
    fixed.push_back(str("MKL_CBWR=", wide ? "AVX512" : "AVX2"));
  }
  return fixed;
}

// Variables for NCCL that a user's own take the place of. NCCL's RAS port is open to every user of the node;
// the sums of NVLS, which we do not use, take memory; connections made at the first use would be made in the
// middle of a step.
Environment nccl_variables(const Job& job, const std::string& interface) {
  if (job.device == "cpu") return {};
  Environment defaults = {"NCCL_RAS_ENABLE=0", "NCCL_NVLS_ENABLE=0", "NCCL_RUNTIME_CONNECT=0"};
  // With one '=', NCCL would take the name for the beginning of names. Without an interface, all trainers are
  // on this machine, and NCCL would listen where other machines reach it.
  defaults.push_back(str("NCCL_SOCKET_IFNAME==", interface.empty() ? "lo" : interface));
  return defaults;
}

// Whether a run records a variable and passes it to its trainers: only variables that change how numbers are
// computed. Other variables of these libraries create files, print, or load a library
// (MKL_VERBOSE_OUTPUT_FILE, ONEDNN_JIT_DUMP, OMP_TOOL_LIBRARIES): a trainer must not take them from a run
// directory that another user may have written. Sources: the environment variables in the guides of oneMKL
// and oneDNN, and in the OpenMP specification.
bool is_recorded(const std::string& name) {
  constexpr std::string_view kNames[] = {"ATEN_CPU_CAPABILITY",
                                         kTunables,
                                         "MKL_CBWR",
                                         "MKL_DEBUG_CPU_TYPE",
                                         "MKL_DISABLE_FAST_MM",
                                         "MKL_DOMAIN_NUM_THREADS",
                                         "MKL_DYNAMIC",
                                         "MKL_ENABLE_INSTRUCTIONS",
                                         "MKL_FAST_MEMORY_LIMIT",
                                         "MKL_NUM_STRIPES",
                                         "MKL_NUM_THREADS",
                                         "KMP_BLOCKTIME",
                                         "KMP_DETERMINISTIC_REDUCTION",
                                         "KMP_FORCE_REDUCTION",
                                         "KMP_LIBRARY",
                                         "KMP_STACKSIZE",
                                         "OMP_CANCELLATION",
                                         "OMP_DYNAMIC",
                                         "OMP_MAX_ACTIVE_LEVELS",
                                         "OMP_NESTED",
                                         "OMP_NUM_THREADS",
                                         "OMP_SCHEDULE",
                                         "OMP_STACKSIZE",
                                         "OMP_THREAD_LIMIT",
                                         "OMP_WAIT_POLICY"};
  constexpr std::string_view kOfOneDnn[] = {"MAX_CPU_ISA", "CPU_ISA_HINTS", "DEFAULT_FPMATH_MODE",
                                            "PRIMITIVE_CACHE_CAPACITY"};
  if (std::ranges::find(kNames, name) != std::end(kNames)) return true;
  return std::ranges::any_of(kOfOneDnn, [&](std::string_view end) {
    return name == str("ONEDNN_", end) || name == str("DNNL_", end);
  });
}

bool has(const Environment& entries, const std::string& name) {
  return std::ranges::any_of(entries, [&](const std::string& entry) { return name_of(entry) == name; });
}

bool is_printable(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

// Tunables are separated by colons (ld.so(8)).
std::string with_heap(const std::string& tunables, const Job& job) {
  std::string all(is_script(job) ? kHeapOfPython : "");
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
    if (is_recorded(name) && !has(fixed, name) && !has(recorded, name) && is_printable(entry))
      recorded.push_back(entry);
  }
  std::ranges::sort(recorded);
  return recorded;
}

std::string visible_gpu(const std::string& all, int number) {
  std::vector<std::string> entries;
  for (std::size_t begin = 0; begin <= all.size();) {
    const std::size_t end = std::min(all.find(',', begin), all.size());
    entries.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  const bool parts = std::ranges::all_of(entries, [](const auto& each) { return each.starts_with("MIG-"); });
  return parts ? entries[static_cast<std::size_t>(number) % entries.size()] : all;
}

TrainerEnvironment trainer_environment(const Environment& inherited, const Job& job,
                                       const std::string& interface) {
  TrainerEnvironment made;
  const Environment fixed = fixed_variables(job);
  std::string left_out, no_numbers;
  const auto add = [](std::string& list, const std::string& entry, const std::string& name) {
    list += str(list.empty() ? "" : ", ", is_printable(entry) ? entry : name);
  };
  for (const std::string& entry : inherited) {
    const std::string name = name_of(entry);
    if (name == "LD_PRELOAD" && !value_of(entry).empty()) {
      made.warnings.push_back(
          str(entry, " reaches the trainers: a library that is loaded this way may change the run's bits"));
    }
    if (has(fixed, name) || name == kTf32Override) continue;
    if (name == "NCCL_COMM_BLOCKING" || name == "NCCL_COMM_ID") {
      made.warnings.push_back(str("trainers do not get ", is_printable(entry) ? entry : name,
                                  ": with it, NCCL could not be ended when a peer is gone"));
      continue;
    }
    if (!is_numeric(name)) {
      made.entries.push_back(entry);
    } else if (std::ranges::find(job.environment, entry) == job.environment.end()) {
      add(is_recorded(name) ? left_out : no_numbers, entry, name);
    }
  }
  if (!left_out.empty()) {
    made.warnings.push_back(
        str("trainers do not get ", left_out,
            ": the first attempt of this run did not have these values, and they may change the bits"));
  }
  if (!no_numbers.empty()) {
    made.warnings.push_back(str("trainers do not get ", no_numbers,
                                ": a run passes on only variables that change how numbers are computed"));
  }
  std::string tunables;
  for (const std::string& entry : job.environment) {
    const std::string name = name_of(entry);
    // Never recorded by an attempt: run.toml was edited.
    if (!is_printable(entry) || !is_recorded(name)) continue;
    if (name == kTunables)
      tunables = value_of(entry);
    else if (!has(fixed, name))
      made.entries.push_back(entry);
  }
  for (const std::string& entry : nccl_variables(job, interface))
    if (!has(inherited, name_of(entry))) made.entries.push_back(entry);
  made.entries.push_back(str(kTunables, "=", with_heap(tunables, job)));
  made.entries.insert(made.entries.end(), fixed.begin(), fixed.end());
  return made;
}

}  // namespace rekindle::protocol
