#include <rekindle/trainer.hpp>
extern const rekindle::model::ModelRow kSmallCnn;
extern const rekindle::data::DatasetRow kPatches;
int main(int argc, char** argv) {
  return rekindle::trainer_main(argc, argv, {.models = {&kSmallCnn}, .datasets = {&kPatches}});
}
