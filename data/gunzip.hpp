// gzip (RFC 1952), by zlib, in pieces. Internal to data/.
#pragma once

#include <memory>
#include <span>

#include "base/input_file.hpp"
#include "base/result.hpp"

namespace rekindle::data {

// What a .gz file unpacks to: all of its members, one after the other. Damage, truncation and anything after
// the last member are errors (ExitCode::kConfig) that name the file. Takes no memory for what the file
// unpacks to.
class Unpacker {
 public:
  explicit Unpacker(const InputFile& file);  // which must outlive it
  ~Unpacker();
  // Fills `out`; returns how much of it: less only at the end.
  Result<std::size_t> read(std::span<std::uint8_t> out);

 private:
  struct Inflater;

  Status refill();

  const InputFile& file_;
  std::unique_ptr<Inflater> inflater_;
  std::uint64_t at_ = 0;  // of the packed bytes
  bool ended_ = false;
};

}  // namespace rekindle::data
