//===- artifact_weights.cpp - the records of weights ---------------------------------===//
#include "artifact_reader.h"

#include <algorithm>
#include <filesystem>

namespace mgx {

namespace {
constexpr size_t most_rank = 64; // The most dimensions that numpy can hold.
constexpr int64_t most_splat = int64_t(1) << 36;
constexpr int64_t weight_alignment = 4096;
} // namespace

Weight ArtifactReader::read_weight(const Json &record) {
  Weight weight;
  weight.key = fields.text(record, "key");
  std::string key = clip(weight.key);
  const std::string &type = fields.text(record, "dtype");
  weight.element = element_of(type);
  if (!weight.element)
    damaged("weight '", key, "' has the unknown type '", clip(type), "'");
  for (const Json &size : fields.list(record, "shape"))
    weight.shape.push_back(fields.bounded(size, "shape", 0, most_number));
  if (weight.shape.size() > most_rank)
    damaged("weight '", key, "' has ", weight.shape.size(), " dimensions");
  weight.bytes = TensorSpec{"", weight.element, weight.shape}.bytes();
  weight.sha256 = fields.text(record, "sha256");
  if (record.find("file")) {
    weight.file = beside(fields.text(record, "file"), key);
    weight.offset = number(record, "offset");
    if (record.find("order"))
      for (const Json &one : fields.list(record, "order"))
        weight.order.push_back(fields.bounded(one, "order", 0, most_number));
    std::vector<int64_t> sorted = weight.order;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); ++i)
      if (sorted.size() != weight.shape.size() || sorted[i] != static_cast<int64_t>(i))
        damaged("weight '", key, "' has no order of its dimensions");
    if (weight.bytes > INT64_MAX - weight.offset)
      damaged("weight '", key, "' is larger than any file");
    return weight;
  }
  const Section &found = section(record);
  if (const Json *splat = record.find("splat");
      splat && splat->kind == Json::Kind::boolean && splat->truth) {
    weight.splat = true;
    weight.data = checked(record);
    auto item = static_cast<size_t>(weight.element->bytes);
    if (weight.data.size() != item || weight.bytes <= weight.element->bytes ||
        weight.bytes > most_splat)
      damaged("weight '", key, "' repeats ", weight.data.size(), " bytes to ", weight.bytes);
    return weight;
  }
  if (found.bytes != weight.bytes || found.offset % weight_alignment)
    damaged("weight '", key, "' takes ", weight.bytes, " bytes and has ", found.bytes);
  weight.data = bytes_of(found);
  weight.mapped = result->bytes->mapped();
  return weight;
}

void ArtifactReader::add_weight(Weight weight) {
  if (!result->by_key.emplace(weight.key, result->weights.size()).second)
    damaged("two weights have one key");
  result->weights.push_back(std::move(weight));
}

std::string ArtifactReader::beside(const std::string &name, const std::string &key) const {
  namespace fs = std::filesystem;
  if (folder.empty())
    bad_artifact("weight '", key, "' lies in a file; open the artifact as a file");
  if (name.empty() || name.find('\0') != name.npos || name.find('\\') != name.npos)
    bad_artifact("weight '", key, "' names the impossible file '", clip(name), "'");
  fs::path path(name), file = fs::path(folder) / path;
  std::error_code error;
  if (!allow_absolute) {
    fs::path real = fs::weakly_canonical(file, error), root = fs::weakly_canonical(folder, error);
    bool up = std::find(path.begin(), path.end(), "..") != path.end();
    auto inside = std::mismatch(root.begin(), root.end(), real.begin(), real.end()).first;
    if (path.is_absolute() || up || error || inside != root.end())
      bad_artifact("weight '", key, "' lies in '", clip(name, 200),
                   "', outside of the artifact's folder; move the file there, or allow absolute "
                   "paths if you trust the artifact");
  }
  if (!fs::is_regular_file(file, error))
    bad_artifact("weight '", key, "' lies in '", clip(name, 200),
                 "', which is not there; put the file back beside the artifact");
  return file.string();
}

} // namespace mgx
