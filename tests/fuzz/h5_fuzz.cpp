// Any bytes as an .h5 file of another program, read as the confined child reads it (app/foreign_file.cpp),
// but in this process: an error, or the tensors of a .safetensors file.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <span>

#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/tensor_file.hpp"
#include "require.hpp"

namespace {

using namespace rekindle;

// Empty, and in memory.
Fd new_file(const char* name) {
  Fd fd(::memfd_create(name, MFD_CLOEXEC));
  require(static_cast<bool>(fd), "there is no memory for a file");
  return fd;
}

std::filesystem::path path_of(const Fd& fd) { return str("/proc/self/fd/", fd.get()); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Fd file = new_file("input"), out = new_file("output");
  require(write_all(file.get(), "the input", 0, std::as_bytes(std::span(data, size))).has_value(),
          "it cannot be written");
  checkpoint::StateSpec tensors;
  const Status read = checkpoint::with_h5(path_of(file), [&](const checkpoint::TensorSource& source) {
    tensors = source.tensors;
    return checkpoint::write_safetensors(Fd(::dup(out.get())), "the output", source);
  });
  if (!read) return 0;
  const auto written = checkpoint::SafetensorsFile::open(path_of(out));
  require(written.has_value(), "its tensors are no .safetensors file");
  require(written->tensors().size() == tensors.size(), "a tensor is lost");
  return 0;
}
