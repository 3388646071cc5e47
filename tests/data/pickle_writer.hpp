// A batch of CIFAR's Python version, as cPickle of Python 2 writes it at protocol 2.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace rekindle::data {

inline std::string word(std::uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

inline std::string short_text(const std::string& text) {
  return "U" + std::string(1, static_cast<char>(text.size())) + text;
}

// {labels_key: labels, "data": numpy.ndarray of 3072 columns}
inline std::string pickled_batch(const std::string& labels_key, const std::vector<std::uint8_t>& labels,
                                 const std::string& pixels, bool column_major = false) {
  std::string out = "\x80\x02}q\x01(" + short_text(labels_key) + "q\x02]q\x03(";
  for (const std::uint8_t label : labels) out += std::string("K") + static_cast<char>(label);
  out += "e" + short_text("data") +
         "q\x04"
         "cnumpy.core.multiarray\n_reconstruct\nq\x05"
         "cnumpy\nndarray\nq\x06";
  out += std::string("K\0\x85q\x07", 5) + short_text("b") + "\x87q\x08Rq\x09(K\x01";
  out += "J" + word(static_cast<std::uint32_t>(std::max<std::size_t>(1, pixels.size() / 3072))) +
         std::string("M\0\x0c\x86", 4);
  out += "cnumpy\ndtype\nq\x0b" + short_text("u1") + std::string("K\0K\x01\x87Rq\x0c(K\x03", 11) +
         short_text("|");
  out += "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff" + std::string("K\0tb", 4) + (column_major ? "\x88" : "\x89");
  return out + "T" + word(static_cast<std::uint32_t>(pixels.size())) + pixels + "tbu.";
}

}  // namespace rekindle::data
