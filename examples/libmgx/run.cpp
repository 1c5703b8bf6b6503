// Describes an artifact, and times a run of it on zeros: dimensions that a run gives are as small
// as they may be.
//
//   c++ -std=c++17 run.cpp -o run $(pkg-config --cflags --libs mgx)
//   ./run model.mgx cpu:1
#include <mgx.hpp>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>

namespace {

// The sizes of an input. Sizes by formula are given with the dimensions that they are of.
mgx::Sizes smallest(const mgx::TensorInfo &tensor, const std::map<std::string, int64_t> &dims) {
  mgx::Sizes sizes = tensor.sizes;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis)
    if (sizes[axis] < 0) {
      auto known = dims.find(tensor.size_texts[axis]);
      sizes[axis] = known == dims.end() ? 1 : known->second;
    }
  return sizes;
}

void describe(const char *what, const std::vector<mgx::TensorInfo> &tensors) {
  for (const mgx::TensorInfo &tensor : tensors) {
    std::cout << what << ' ' << tensor.name << ':';
    for (const std::string &size : tensor.size_texts)
      std::cout << ' ' << size;
    std::cout << '\n';
  }
}

} // namespace

int main(int count, char **words) try {
  if (count != 3) {
    std::cerr << "usage: run MODEL.mgx DEVICE\n";
    return 2;
  }
  mgx::Artifact artifact(words[1]);
  mgx::Device device(words[2]);
  std::cout << artifact.info().name << " on " << device.info().name << '\n';
  describe("input", artifact.inputs());
  describe("output", artifact.outputs());

  mgx::Program program(artifact, device);
  std::map<std::string, int64_t> dims;
  for (const mgx::Dimension &dim : artifact.dimensions())
    dims[dim.name] = std::max<int64_t>(dim.least, 1);
  std::vector<std::vector<double>> memory; // Of doubles, which suits every type.
  std::vector<mgx::View> inputs;
  for (const mgx::TensorInfo &tensor : artifact.inputs()) {
    mgx::Sizes sizes = smallest(tensor, dims);
    std::size_t elements = 1;
    for (int64_t size : sizes)
      elements *= static_cast<std::size_t>(size);
    memory.emplace_back(elements);
    inputs.push_back(mgx::view(memory.back(), sizes));
  }
  program.run(inputs);
  auto start = std::chrono::steady_clock::now();
  std::vector<mgx::Array> results = program.run(inputs);
  std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  std::cout << "results: " << results.size() << ", ms: " << taken.count() << '\n';
  return 0;
} catch (const mgx::Error &error) {
  std::cerr << "run: " << error.what() << '\n';
  return 1;
}
