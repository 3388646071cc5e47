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

// find_package(rekindle) sets the folder of the installed programs.
#ifndef REKINDLE_PROGRAMS
#define REKINDLE_PROGRAMS ""
#endif

namespace rekindle {

// Models and data sets beside the built-in ones. The rows must live until trainer_main() returns.
struct Extensions {
  std::vector<const model::ModelRow*> models = {};
  std::vector<const data::DatasetRow*> datasets = {};
};

// The whole of main(): trains when a worker starts this program, and answers `describe`. With any other
// command line this process becomes the `rekindle` of the folder `programs`, which then trains with this
// program. An empty `programs`: such a command line is an error. Returns the exit code.
int trainer_main(int argc, char** argv, const Extensions& more, const char* programs = REKINDLE_PROGRAMS);

}  // namespace rekindle
