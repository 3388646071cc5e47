// A trainer program with models and data sets of its own. docs/extending.md shows one in full.
//
//   #include <rekindle/trainer.hpp>
//   #include "my_model.hpp"
//   int main(int argc, char** argv) {
//     return rekindle::trainer_main(argc, argv, {.models = {&kMyModel}});
//   }
#pragma once

#include <vector>

#include "data/dataset.hpp"
#include "model/models.hpp"

// Set by find_package(rekindle).
#ifndef REKINDLE_PROGRAMS
#define REKINDLE_PROGRAMS ""
#define REKINDLE_PACKAGE ""
#endif

namespace rekindle {

// Models and data sets beside the built-in ones. The rows must live until trainer_main() returns.
struct Extensions {
  std::vector<const model::ModelRow*> models = {};
  std::vector<const data::DatasetRow*> datasets = {};
};

// The installed rekindle that a program was built with.
struct Package {
  const char* programs = REKINDLE_PROGRAMS;  // the folder of its programs; "": this program has no front end
  const char* build = REKINDLE_PACKAGE;      // the text of the file `build` there
};

// The whole of main(): trains when a worker starts this program, and answers `describe`. With any other
// command line this process becomes the `rekindle` of the package, which then trains with this program. If
// the package has changed since this program was built, that is an error. Returns the exit code.
int trainer_main(int argc, char** argv, const Extensions& more, const Package& package = {});

}  // namespace rekindle
