#include "app/foreign_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "app/report.hpp"
#include "base/json_reader.hpp"
#include "base/programs.hpp"
#include "base/sandbox.hpp"
#include "base/text.hpp"

namespace rekindle::app {

namespace fs = std::filesystem;

namespace {

// Descriptors that the child inherits: memory files for the tensors (as .safetensors) and for an error.
constexpr int kTensorsFd = kInheritedFd, kErrorFd = kInheritedFd + 1;
constexpr rlim_t kMaxSeconds = 600;  // of processor time: a damaged file can make libhdf5 loop
// The child's own memory. The child reads tensors in pieces, so only a damaged or hostile file needs more.
constexpr rlim_t kMostMemory = rlim_t{1} << 30;

constexpr std::size_t kMostOfAnError = std::size_t{64} << 10;  // bytes; a hostile file may control the child

fs::path path_of(int fd) { return str("/proc/self/fd/", fd); }

Error error_from(const std::string& text, const fs::path& file) {
  constexpr JsonField kFields[] = {
      {"code", JsonType::kInt}, {"what", JsonType::kText}, {"hint", JsonType::kText}};
  const auto json = parse_object(text, kFields, file.string());
  if (!json)
    return {ExitCode::kConfig,
            str(file.string(), " cannot be read: its reader ended without an error report"),
            {}};
  return {static_cast<ExitCode>(json->value("code", 70)), json->value("what", ""), json->value("hint", "")};
}

Status write_error(const Error& error) {
  const nlohmann::json json = {
      {"code", static_cast<int>(error.code)}, {"what", error.what}, {"hint", error.hint}};
  const std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return write_all(kErrorFd, "the error", 0, std::as_bytes(std::span(text)));
}

Result<checkpoint::SafetensorsFile> read_in_child(const fs::path& file) {
  REKINDLE_TRY(const Fd tensors, memory_file("tensors"));
  REKINDLE_TRY(const Fd error, memory_file("error"));
  const std::array inherited = {tensors.get(), error.get()};
  REKINDLE_TRY(const Child child, start_program("rekindle", {kReadH5, file}, inherited));
  const ExitStatus end = wait_for(child);
  if (end.by_signal) {
    return fail(ExitCode::kConfig,
                str(file.string(), " cannot be read: its reader was ended by signal ", end.code),
                "the file is damaged or not an HDF5 file");
  }
  if (end.code == 0) return checkpoint::SafetensorsFile::open(path_of(tensors.get()));
  REKINDLE_TRY(const std::string text, read_text(path_of(error.get()), kMostOfAnError));
  return forward_error(error_from(text, file));
}

void limit_memory() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers reserve terabytes
  const rlimit memory{kMostMemory, kMostMemory};
  ::setrlimit(RLIMIT_AS, &memory);
#endif
}

// Writes the complete file to kTensorsFd.
Status pass_on(const fs::path& file) {
  try {
    return checkpoint::with_h5(file, [](const checkpoint::TensorSource& tensors) {
      return checkpoint::write_safetensors(Fd(::fcntl(kTensorsFd, F_DUPFD_CLOEXEC, 0)), "the tensors",
                                           tensors);
    });
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  return fail(ExitCode::kConfig,
              str(file.string(), " cannot be read: it takes more than ", kMostMemory >> 20, " MiB of memory"),
              "it may claim more than it holds");
}

}  // namespace

Result<Fd> memory_file(const char* name) {
  Fd fd(::memfd_create(name, MFD_CLOEXEC));
  if (!fd) return forward_error(errno_error("cannot make memory for", name));
  return fd;
}

Result<checkpoint::SafetensorsFile> open_foreign_file(const fs::path& file) {
  if (file.extension() == ".safetensors") return checkpoint::SafetensorsFile::open(file);
  if (file.extension() == ".h5" || file.extension() == ".hdf5") return read_in_child(file);
  for (const char* pickled : {".pt", ".pth", ".bin", ".ckpt", ".pkl"})
    if (file.extension() == pickled)
      return fail(ExitCode::kUsage,
                  str(file.string(), " is a pickle, and a pickle is a program: it is not read"),
                  "convert it on a machine that has PyTorch: docs/running.md, \"Weights in and out\"");
  return fail(ExitCode::kUsage, str("cannot read ", file.string()),
              "give a .safetensors or .h5 file, a checkpoint or a run directory");
}

int run_read_h5(const fs::path& file) {
  const rlimit no_core{0, 0}, time{kMaxSeconds, kMaxSeconds};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::setrlimit(RLIMIT_CPU, &time);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::close(kProgramsFd);  // this process starts no programs
  limit_memory();
  const Confinement held = confine_to_reading(file);
  // Landlock needs an existing file. The error for a missing file follows.
  if (kCanConfine && !(held.calls && (held.files || !path_exists(file))))
    warn(str("warning: this kernel does not confine the process that reads ", file.string(),
             " (Landlock and seccomp would): read only files from sources that you trust"));
  const Status status = pass_on(file);
  if (status) return 0;
  return write_error(status.error()) ? static_cast<int>(status.error().code) : EXIT_FAILURE;
}

}  // namespace rekindle::app
