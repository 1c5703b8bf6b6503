//===- artifact.cpp - the header, sections and manifest of a .mgx file ---------------===//
#include "artifact.h"
#include "artifact_reader.h"
#include "hash.h"
#include "json_writer.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <stdexcept>

namespace mgx {

namespace {

constexpr std::string_view magic("\x89MGX\r\n\x1a\n", 8);
constexpr unsigned major_version = 1, minor_version = 1;
constexpr size_t header_bytes = 64;
constexpr size_t most_manifest = size_t(1) << 28;
constexpr int64_t section_alignment = 64;

template <class Number> Number little(std::string_view bytes, size_t offset) {
  Number value = 0;
  for (size_t i = sizeof(Number); i-- > 0;)
    value = static_cast<Number>(value << 8 | static_cast<unsigned char>(bytes[offset + i]));
  return value;
}

} // namespace

Json ArtifactReader::read_manifest() {
  if (data.size() < header_bytes)
    bad_artifact("no artifact: it is too short", repair);
  if (data.substr(0, 8) != magic)
    bad_artifact("no .mgx artifact, or damaged in its first bytes; mgx_mlir.compile takes models");
  unsigned major = little<uint16_t>(data, 8), minor = little<uint16_t>(data, 10);
  if (major != major_version || minor > minor_version)
    bad_artifact("format version ", major, ".", minor, "; this libmgx reads ", major_version,
                 ".0 to ", major_version, ".", minor_version,
                 ": use the version that wrote it or a newer one, or compile the model again");
  auto size = little<uint64_t>(data, 16), total = little<uint64_t>(data, 24);
  if (little<uint32_t>(data, 12) != header_bytes || size > most_manifest ||
      size > data.size() - header_bytes)
    damaged("its header has impossible sizes");
  if (total != data.size())
    damaged("it should have ", total, " bytes and has ", data.size());
  text = data.substr(header_bytes, size); // A copy: another process may write to the file.
  auto *digest = reinterpret_cast<const unsigned char *>(data.data()) + 32;
  if (!has_hash(text, hex_text(digest, 32)))
    damaged("its manifest does not have the recorded hash");
  end = static_cast<int64_t>(header_bytes + size);
  try {
    Json manifest = Json::parse(text);
    if (manifest.kind == Json::Kind::object)
      return manifest;
  } catch (const std::invalid_argument &) {
  }
  damaged("its manifest is no JSON in canonical form");
}

void ArtifactReader::check_sections(const Json &manifest) {
  for (const Json &record : fields.list(manifest, "sections")) {
    Section section{number(record, "offset"), number(record, "bytes"),
                    fields.text(record, "sha256"), false};
    auto whole = static_cast<int64_t>(data.size());
    if (section.offset < end || section.offset + section.bytes > whole ||
        section.offset % section_alignment)
      damaged("section ", sections.size(), " lies outside of the file");
    end = section.offset + section.bytes;
    sections.push_back(std::move(section));
  }
  if (end != static_cast<int64_t>(data.size()))
    damaged("its sections do not fill the file");
}

const ArtifactReader::Section &ArtifactReader::section(const Json &record) {
  int64_t which = number(record, "section");
  if (which >= static_cast<int64_t>(sections.size()))
    damaged("there is no section ", which);
  return sections[static_cast<size_t>(which)];
}

std::string_view ArtifactReader::bytes_of(const Section &section) const {
  return data.substr(static_cast<size_t>(section.offset), static_cast<size_t>(section.bytes));
}

std::string_view ArtifactReader::checked(const Json &record) {
  auto &found = const_cast<Section &>(section(record));
  std::string_view content = bytes_of(found);
  if (!found.known && !has_hash(content, found.sha256))
    damaged("section ", &found - sections.data(), " does not have the recorded hash");
  found.known = true;
  return content;
}

void ArtifactReader::read_kernel(const Json &record) {
  fields.text(record, "name");
  checked(record);
  fields.texts(record, "features");
  fields.texts(record, "nodes");
  const auto &version = fields.list(record, "dialect");
  if (version.size() != 2)
    damaged("a dialect version has two numbers");
  dialect = std::max(dialect, std::pair(fields.bounded(version[0], "dialect", 0, most_number),
                                        fields.bounded(version[1], "dialect", 0, most_number)));
  result->kernels.push_back(section(record).sha256);
}

void ArtifactReader::read_code(const Json &manifest) {
  const Json &by_arch = fields.field(manifest, "code_objects", Json::Kind::object);
  for (size_t i = 0; i < by_arch.keys.size(); ++i) {
    const std::string &arch = by_arch.keys[i];
    Code code;
    std::vector<std::string> records;
    for (const Json &record : fields.list(by_arch, arch.c_str())) {
      std::string_view bytes = checked(record);
      code.push_back(CodeObject::read(record, bytes, section(record).sha256));
      if (code.back().arch != arch)
        damaged("a code object of ", clip(arch), " is for ", clip(code.back().arch));
      records.push_back(code_json(code.back(), record));
    }
    auto is_resident = [](const CodeObject &one) { return one.resident.has_value(); };
    auto kernels =
        static_cast<size_t>(std::count_if(code.begin(), code.end(), std::not_fn(is_resident)));
    if (!std::is_partitioned(code.begin(), code.end(), std::not_fn(is_resident)))
      damaged("a resident kernel stands before a kernel's code");
    if (kernels != result->kernels.size())
      bad_artifact(clip(arch), " has ", kernels, " of ", result->kernels.size(), " code objects");
    result->code_hashes[arch] =
        sha256(list_json(records, [](const std::string &text) { return text; }));
    result->targets.push_back(arch.substr(0, arch.find(':')));
    result->code.emplace(arch, std::move(code));
  }
}

void ArtifactReader::read_signatures(const Json &manifest) {
  if (!manifest.find("signatures"))
    return;
  for (const Json &record : fields.list(manifest, "signatures")) {
    Signature signature;
    for (auto [name, size, text] :
         {std::tuple("key", 64, &signature.key), std::tuple("value", 128, &signature.value)}) {
      *text = fields.text(record, name);
      if (text->size() != static_cast<size_t>(size) ||
          text->find_first_not_of("0123456789abcdef") != text->npos)
        damaged("a signature's ", name, " is ", size, " hexadecimal digits");
    }
    const Json &code = fields.field(record, "code", Json::Kind::object);
    for (size_t i = 0; i < code.keys.size(); ++i) {
      if (code.items[i].kind != Json::Kind::text)
        damaged("a signature's code hashes are texts");
      signature.code[code.keys[i]] = code.items[i].text;
    }
    result->signatures.push_back(std::move(signature));
  }
}

void ArtifactReader::check_schedules(const Json &manifest) {
  if (!manifest.find("schedules"))
    return;
  const Json &by_arch = fields.field(manifest, "schedules", Json::Kind::object);
  for (const std::string &arch : by_arch.keys) {
    const auto &found = fields.list(by_arch, arch.c_str());
    if (found.size() != result->kernels.size())
      bad_artifact(clip(arch), " has ", found.size(), " of ", result->kernels.size(), " schedules");
    for (const Json &one : found) {
      auto text = [&](size_t i) { return one.items[i].kind == Json::Kind::text; };
      bool is = one.kind == Json::Kind::list && one.items.size() == 4 && text(0) && text(1) &&
                text(2) && one.items[3].kind == Json::Kind::boolean;
      if (is)
        is = one.items[0].text.size() <= most_words && one.items[1].text.size() <= most_words &&
             (one.items[2].text == "user" || one.items[2].text == "system");
      if (!is && one.kind != Json::Kind::null)
        damaged("a tuned schedule is variant, words, origin and a bool");
    }
  }
}

std::string ArtifactReader::content(const Json &manifest) const {
  auto text = [](const std::string &hash) { return text_json(hash); };
  std::map<std::string, std::string> weights, all;
  for (const Weight &weight : result->weights)
    weights[weight.key] = text_json(weight.sha256);
  all["dialect"] = cat("[", dialect.first, ",", dialect.second, "]");
  all["kernels"] = list_json(result->kernels, text);
  all["options"] = manifest.find("options")->source;
  all["pipelines"] = manifest.find("pipelines")->source;
  all["plan"] = result->plan.json();
  all["weights"] = object_json(weights);
  if (result->parts)
    all["parts"] = parts_json(*result->parts);
  return object_json(all);
}

// Whether plan, kernels, weights and code fit together.
void ArtifactReader::check_whole() const {
  std::vector<const Plan *> roots{&result->plan};
  if (result->parts)
    for (const auto &[place, steps] : result->parts->graphs)
      for (const Part &part : steps)
        for (const Plan &plan : part.plans)
          roots.push_back(&plan);
  for (const Plan *root : roots)
    for (const Plan *plan : root->plans()) {
      walk(plan->steps, [&](const Step &step) {
        if (step.kernel >= static_cast<int64_t>(result->kernels.size()))
          bad_artifact("the plan launches kernel ", step.kernel, ", which is not there");
      });
      for (const Buffer &buffer : plan->buffers) {
        if (buffer.kind != Memory::weight)
          continue;
        const Weight *weight = result->weight(buffer.key);
        if (!weight)
          bad_artifact("the plan reads weight '", clip(buffer.key), "', which is not there");
        if (weight->bytes != buffer.bytes)
          bad_artifact("weight '", clip(buffer.key), "' is not of the size that the plan reads");
      }
    }
  if (result->parts)
    for (const auto &[name, key] : result->parts->weights)
      if (!result->weight(key))
        bad_artifact("weight '", clip(name), "' of the host is not there");
  for (const auto &[arch, code] : result->code)
    for (const Plan *root : roots)
      check_code(*root, code);
}

std::shared_ptr<const Artifact> ArtifactReader::read() {
  Json manifest = read_manifest();
  check_sections(manifest);
  result->name = fields.text(manifest, "name");
  result->producer = fields.text(manifest, "producer");
  result->plan = Plan::read(fields.field(manifest, "plan", Json::Kind::object));
  for (const Json &record : fields.list(manifest, "kernels"))
    read_kernel(record);
  for (const Json &record : fields.list(manifest, "weights"))
    add_weight(read_weight(record));
  fields.field(manifest, "options", Json::Kind::object);
  for (const Json &pair : fields.list(manifest, "pipelines"))
    if (pair.kind != Json::Kind::list || pair.items.size() != 2 ||
        pair.items[0].kind != Json::Kind::text || pair.items[1].kind != Json::Kind::text)
      damaged("a pipeline is a name and a text");
  read_code(manifest);
  read_signatures(manifest);
  check_schedules(manifest);
  if (manifest.find("parts"))
    read_parts(fields.field(manifest, "parts", Json::Kind::object));
  result->content_hash = fields.text(manifest, "content_hash");
  if (!has_hash(content(manifest), result->content_hash))
    bad_artifact("the program does not have the recorded content hash");
  check_whole();
  return result;
}

const Weight *Artifact::weight(const std::string &key) const {
  auto found = by_key.find(key);
  return found == by_key.end() ? nullptr : &weights[found->second];
}

std::shared_ptr<const Artifact> Artifact::open(const std::string &path, bool allow_absolute) {
  std::shared_ptr<const Bytes> bytes = Bytes::map(path);
  try {
    return ArtifactReader(bytes, allow_absolute).read();
  } catch (const Error &error) {
    if (error.kind != MGX_ERROR_ARTIFACT)
      throw;
    bad_artifact(path, ": ", error.text);
  }
}

std::shared_ptr<const Artifact> Artifact::read(std::shared_ptr<const Bytes> bytes,
                                               bool allow_absolute) {
  return ArtifactReader(std::move(bytes), allow_absolute).read();
}

} // namespace mgx
