// Runs one program from many threads with sizes at random: results are those of one thread, nothing
// is made ready after the first run of each size, memory stays as it is.
//
//   stress MODEL.mgx DEVICE THREADS SECONDS
//
// For programs whose inputs' sizes are numbers or named dimensions. Built with sanitizers by
// `make sanitize-libmgx`.
#include "mgx.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <thread>

namespace {

constexpr std::size_t size_count = 12;

struct Case {
  std::vector<std::vector<double>> memory; // Of doubles, which suits every type.
  std::vector<mgx::View> inputs;
  std::vector<mgx::Array> wanted;
};

std::size_t bytes_of(mgx_type type) {
  switch (type) {
  case MGX_FLOAT64:
  case MGX_INT64:
  case MGX_UINT64:
    return 8;
  case MGX_FLOAT32:
  case MGX_INT32:
  case MGX_UINT32:
    return 4;
  case MGX_FLOAT16:
  case MGX_BFLOAT16:
  case MGX_INT16:
  case MGX_UINT16:
    return 2;
  default:
    return 1;
  }
}

// Floats near 0; zeros of other types, which are in the bounds of all that they may index.
void fill(std::vector<double> &memory, mgx_type type, std::size_t elements, std::mt19937 &random) {
  if (type != MGX_FLOAT32)
    return;
  std::uniform_real_distribution<float> near(-1, 1);
  auto *values = reinterpret_cast<float *>(memory.data());
  for (std::size_t i = 0; i < elements; ++i)
    values[i] = near(random);
}

Case made(const mgx::Artifact &artifact, std::mt19937 &random) {
  std::map<std::string, int64_t> dims;
  for (const mgx::Dimension &dim : artifact.dimensions()) {
    int64_t most = dim.most < 0 ? dim.least + 24 : dim.most;
    dims[dim.name] = std::uniform_int_distribution<int64_t>(dim.least, most)(random);
  }
  Case one;
  for (const mgx::TensorInfo &tensor : artifact.inputs()) {
    mgx::Sizes sizes = tensor.sizes;
    std::size_t elements = 1;
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      if (sizes[axis] < 0)
        sizes[axis] = dims.at(tensor.size_texts[axis]);
      elements *= static_cast<std::size_t>(sizes[axis]);
    }
    one.memory.emplace_back(elements * bytes_of(tensor.type) / sizeof(double) + 1);
    fill(one.memory.back(), tensor.type, elements, random);
    one.inputs.push_back({one.memory.back().data(), sizes, 0, tensor.type, MGX_MEMORY_HOST});
  }
  return one;
}

bool equal(const std::vector<mgx::Array> &found, const std::vector<mgx::Array> &wanted) {
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (found[i].sizes != wanted[i].sizes ||
        std::memcmp(found[i].as<char>(), wanted[i].as<char>(), wanted[i].bytes) != 0)
      return false;
  return true;
}

long resident_kilobytes() {
  long pages = 0;
  if (std::FILE *file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%*d %ld", &pages) != 1)
      pages = 0;
    std::fclose(file);
  }
  return pages * 4;
}

} // namespace

int main(int count, char **words) try {
  if (count != 5) {
    std::fprintf(stderr, "usage: stress MODEL.mgx DEVICE THREADS SECONDS\n");
    return 2;
  }
  mgx::Artifact artifact(words[1]);
  mgx::Program program(artifact, mgx::Device(words[2]));
  std::mt19937 random(0);
  std::vector<Case> cases;
  while (cases.size() < size_count) {
    cases.push_back(made(artifact, random));
    cases.back().wanted = program.run(cases.back().inputs);
  }
  std::atomic<long> runs{0}, wrong{0};
  auto round = [&](double seconds) {
    auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    std::vector<std::thread> threads;
    for (int number = 0; number < std::atoi(words[3]); ++number)
      threads.emplace_back([&, number] {
        std::minstd_rand own(static_cast<unsigned>(number));
        while (std::chrono::steady_clock::now() < end) {
          const Case &one = cases[own() % size_count];
          wrong += !equal(program.run(one.inputs), one.wanted);
          ++runs;
        }
      });
    for (std::thread &thread : threads)
      thread.join();
  };
  round(std::atof(words[4]) / 4); // Every thread has had its memory.
  auto bindings = program.info().bindings;
  long before = resident_kilobytes();
  round(std::atof(words[4]) * 3 / 4);
  long grown = resident_kilobytes() - before;
  auto more = program.info().bindings - bindings;
  std::printf("runs %ld, wrong %ld, made ready again %lu, grown by %ld kB\n", runs.load(),
              wrong.load(), static_cast<unsigned long>(more), grown);
  return wrong.load() || more ? 1 : 0;
} catch (const mgx::Error &error) {
  std::fprintf(stderr, "stress: %s\n", error.what());
  return 2;
}
