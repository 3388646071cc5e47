// Shared by the tests of data/: a separate folder, small files, and known images.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/memory_images.hpp"
#include "gzipped.hpp"

namespace rekindle::data {

namespace fs = std::filesystem;

struct Scratch {
  fs::path path;
  Scratch() {
    std::string name = (fs::temp_directory_path() / "rekindle-data-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
    path = name;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { fs::remove_all(path); }
};

inline void put(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string get(const fs::path& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

template <class T>
std::uint32_t crc(std::span<const T> values) {
  return static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(values.data()), static_cast<uInt>(values.size_bytes())));
}

// Sets all times so long ago that an index of an image folder may be written.
inline void age(const fs::path& root) {
  const auto past = fs::file_time_type::clock::now() - std::chrono::hours(1);
  fs::last_write_time(root, past);
  for (const auto& entry : fs::recursive_directory_iterator(root)) fs::last_write_time(entry, past);
}

// known_image() of tests/oracle/pil_resize.py
inline std::vector<std::uint8_t> known_image(std::size_t bytes) {
  std::vector<std::uint8_t> out(bytes);
  std::uint32_t state = 12345;
  for (auto& byte : out) {
    state = state * 1664525U + 1013904223U;
    const std::uint32_t value = state >> 24;
    byte = static_cast<std::uint8_t>(value > 230 ? 255 : value < 20 ? 0 : value);
  }
  return out;
}

// The golden file's lines that begin with `word`, without the word.
inline std::vector<std::istringstream> golden_lines(const std::string& word) {
  std::ifstream file(REKINDLE_GOLDEN "/pil_resize.txt");
  std::vector<std::istringstream> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(word + " ")) lines.emplace_back(line.substr(word.size()));
  }
  return lines;
}

// Makes a data set with make_data() and opens it.
inline std::unique_ptr<Dataset> made(const std::string& kind, std::size_t samples, std::uint64_t seed = 1) {
  const Scratch scratch;
  EXPECT_TRUE(make_data(kind, scratch.path, samples, seed));
  auto dataset = open_dataset(kind, scratch.path, {});
  EXPECT_TRUE(dataset) << dataset.error().line();
  return dataset ? std::move(*dataset) : nullptr;
}

// The images and labels of a data set as they are in its files.
inline const MemoryImages& raw(const Dataset& dataset) { return dynamic_cast<const MemoryImages&>(dataset); }

}  // namespace rekindle::data
