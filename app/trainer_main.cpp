// rekindle-trainer: the trainer program with the built-in models and data sets.
#include "rekindle/trainer.hpp"

int main(int argc, char** argv) { return rekindle::trainer_main(argc, argv, {}); }
