// The calls of a mounted node, which libfuse passes on.
#pragma once

#define FUSE_USE_VERSION 31

#include <fuse.h>

#include <string>

#include "network_disk.hpp"

namespace rekindle::network_disk {

// What a call gets as its private data.
struct Node {
  int number;
  std::string backing;
  Names& names;
  Habits habits;
};

fuse_operations calls();

}  // namespace rekindle::network_disk
