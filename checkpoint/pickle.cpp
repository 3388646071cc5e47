#include "checkpoint/pickle.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>

namespace rekindle::checkpoint {
namespace {

// Opcodes of protocol 2: https://github.com/python/cpython/blob/main/Lib/pickletools.py
constexpr std::string_view kProtocol = "\x80\x02", kEmptyTuple = ")", kMark = "(", kTuple = "t",
                           kReduce = "R", kPersistentId = "Q", kFalse = "\x89", kSetItems = "u", kStop = ".";
constexpr std::string_view kOrderedDict = "ccollections\nOrderedDict\n";
constexpr std::string_view kRebuildTensor = "ctorch._utils\n_rebuild_tensor_v2\n";

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

void add_text(std::string& out, std::string_view text) {
  out += 'X';
  out += little_endian(text.size(), 4);
  out += text;
}

void add_number(std::string& out, std::int64_t number) {
  const bool wide = number > std::numeric_limits<std::int32_t>::max();
  out += wide ? "\x8a\x08" : "J";  // LONG1 of 8 bytes; BININT
  out += little_endian(static_cast<std::uint64_t>(number), wide ? 8 : 4);
}

void add_numbers(std::string& out, const std::vector<std::int64_t>& numbers) {
  out += kMark;
  for (const std::int64_t number : numbers) add_number(out, number);
  out += kTuple;
}

const char* storage_class(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return "FloatStorage";
    case Dtype::kFloat64:
      return "DoubleStorage";
    case Dtype::kInt64:
      return "LongStorage";
    case Dtype::kInt32:
      return "IntStorage";
    case Dtype::kUint8:
      return "ByteStorage";
    case Dtype::kBfloat16:
      return "BFloat16Storage";
    case Dtype::kFloat16:
      return "HalfStorage";
  }
  return "";
}

// In elements, row-major; torch counts a dimension of 0 as 1.
std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<std::int64_t>(1, shape[i]);
  return strides;
}

// ("storage", torch.FloatStorage, "0", "cpu", elements)
void add_storage(std::string& out, const TensorSpec& tensor, std::size_t index) {
  out += kMark;
  add_text(out, "storage");
  out += "ctorch\n";
  out += storage_class(tensor.dtype);
  out += '\n';
  add_text(out, std::to_string(index));
  add_text(out, "cpu");
  add_number(out, static_cast<std::int64_t>(tensor.bytes() / bytes_of(tensor.dtype)));
  out += kTuple;
  out += kPersistentId;
}

void add_empty_dict(std::string& out) {
  out += kOrderedDict;
  out += kEmptyTuple;
  out += kReduce;
}

// _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks)
void add_tensor(std::string& out, const TensorSpec& tensor, std::size_t index) {
  out += kRebuildTensor;
  out += kMark;
  add_storage(out, tensor, index);
  add_number(out, 0);
  add_numbers(out, tensor.shape);
  add_numbers(out, strides_of(tensor.shape));
  out += kFalse;
  add_empty_dict(out);
  out += kTuple;
  out += kReduce;
}

}  // namespace

std::string state_dict_pickle(const StateSpec& spec) {
  std::string out(kProtocol);
  add_empty_dict(out);
  out += kMark;
  for (std::size_t i = 0; i < spec.size(); ++i) {
    add_text(out, spec[i].name);
    add_tensor(out, spec[i], i);
  }
  out += kSetItems;
  out += kStop;
  return out;
}

}  // namespace rekindle::checkpoint
