// The HDF5 part of a file: the offset of each dataset's bytes, and the header bytes around the data. The
// layout is made in memory, so libhdf5 never accesses the run directory. Internal to checkpoint/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "checkpoint/sparse_bytes.hpp"
#include "checkpoint/state.hpp"

namespace rekindle::checkpoint {

// An int64 attribute: a scalar, or an array (which may be empty).
struct LayoutAttribute {
  std::string name;
  std::vector<std::int64_t> values;
  bool scalar = true;
};

// Rows of a dataset that are in a file in the same directory, as a complete dataset of the same name.
struct RowsElsewhere {
  std::string file;
  std::int64_t first_row = 0, rows = 0;
};

struct LayoutDataset {
  std::string name;
  Dtype dtype = Dtype::kFloat32;
  std::vector<std::int64_t> shape;
  std::vector<LayoutAttribute> attributes;
  std::vector<RowsElsewhere> elsewhere = {};  // if set, all rows: a virtual dataset, without its own data
};

struct Layout {
  SparseBytes headers;                 // all bytes except the data
  std::uint64_t bytes = 0;             // the file's size
  std::vector<std::uint64_t> offsets;  // of each dataset's first byte; 0 for a dataset without data here
};

Result<Layout> lay_out(const std::vector<LayoutDataset>& datasets,
                       const std::vector<LayoutAttribute>& attributes);

}  // namespace rekindle::checkpoint
