// The HDF5 side of a file: where each dataset's bytes go and what the header bytes around them are. Laid out
// in memory, so libhdf5 never touches the run directory. Internal to checkpoint/.
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

// Rows of a dataset that lie in a file beside this one, as a whole dataset of the same name.
struct RowsElsewhere {
  std::string file;
  std::int64_t first_row = 0, rows = 0;
};

struct LayoutDataset {
  std::string name;
  Dtype dtype = Dtype::kFloat32;
  std::vector<std::int64_t> shape;
  std::vector<LayoutAttribute> attributes;
  std::vector<RowsElsewhere> elsewhere = {};  // all of its rows: a virtual dataset, without data of its own
};

struct Layout {
  SparseBytes headers;                 // everything but the data
  std::uint64_t bytes = 0;             // the file's size
  std::vector<std::uint64_t> offsets;  // of each dataset's first byte; 0 for one without data here
};

Result<Layout> lay_out(const std::vector<LayoutDataset>& datasets,
                       const std::vector<LayoutAttribute>& attributes);

}  // namespace rekindle::checkpoint
