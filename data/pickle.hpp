// Reads the pickles in which CIFAR is distributed: a dictionary of numbers, texts, lists and NumPy arrays of
// bytes. Executes nothing: only the opcodes and the three NumPy names of these files are accepted.
// Internal to data/.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace rekindle::data {

// A NumPy array of bytes with two dimensions.
struct PickledArray {
  std::size_t rows = 0, columns = 0;
  bool column_major = false;
  std::string_view bytes;  // rows x columns
};

// Every error is ExitCode::kConfig and names the file.
class Pickle {
 public:
  // `bytes` must outlive this object. `source`: the file, for errors.
  static Result<Pickle> parse(std::string_view bytes, std::string source);

  // Values of the dictionary. An error if a key is missing or has a value of another kind.
  Result<std::vector<std::int64_t>> numbers(std::string_view key) const;
  Result<std::vector<std::string>> texts(std::string_view key) const;
  Result<PickledArray> array(std::string_view key) const;

 private:
  friend class Unpickler;
  using Handle = std::uint32_t;  // a place in values_
  enum class Kind : std::uint8_t { kNone, kNumber, kText, kList, kTuple, kDict, kGlobal, kDtype, kArray };
  struct Value {
    Kind kind = Kind::kNone;
    std::int64_t number = 0;
    std::string_view text = {};      // of kText, kGlobal ("module name") and kDtype
    std::vector<Handle> items = {};  // of lists and tuples; of kDict: keys and values in turn;
                                     // of kArray: shape, dtype, order, bytes
  };

  Result<const Value*> find(std::string_view key) const;
  tl::unexpected<Error> wrong(std::string_view key, std::string_view wanted) const;
  const Value& at(Handle handle) const { return values_[handle]; }

  std::string source_;
  std::vector<Value> values_;
  Handle root_ = 0;
};

}  // namespace rekindle::data
