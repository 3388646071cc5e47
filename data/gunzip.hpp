// Decompresses gzip (RFC 1952) with zlib, in pieces. Internal to data/.
#pragma once

#include <memory>
#include <span>

#include "base/input_file.hpp"
#include "base/result.hpp"

namespace rekindle::data {

// Decompresses all members of a .gz file in order. Damage, truncation and bytes after the last member are
// errors (ExitCode::kConfig) that name the file. Needs no memory for the decompressed content.
class Unpacker {
 public:
  explicit Unpacker(const InputFile& file);  // `file` must outlive this object
  ~Unpacker();
  // Fills `out`. Returns the number of bytes, which is less than the size only at the end.
  Result<std::size_t> read(std::span<std::uint8_t> out);

 private:
  struct Inflater;

  Status refill();

  const InputFile& file_;
  std::unique_ptr<Inflater> inflater_;
  std::uint64_t at_ = 0;  // offset in the compressed bytes
  bool ended_ = false;
};

}  // namespace rekindle::data
