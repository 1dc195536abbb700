#include "cli/run.hpp"

int main(int argc, char** argv) { return vram::cli::run(argc, argv, vram::cli::kBuild); }
