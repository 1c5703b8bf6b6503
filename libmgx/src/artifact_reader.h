//===- artifact_reader.h - the reader of a .mgx file ---------------------------------===//
#pragma once

#include "artifact.h"

namespace mgx {

class ArtifactReader {
public:
  ArtifactReader(std::shared_ptr<const Bytes> bytes, bool allow_absolute)
      : data(bytes->view()), folder(bytes->folder), allow_absolute(allow_absolute),
        result(std::make_shared<Artifact>()) {
    result->bytes = std::move(bytes);
  }

  std::shared_ptr<const Artifact> read();

private:
  struct Section {
    int64_t offset, bytes;
    std::string sha256;
    bool known; // Its hash is checked.
  };
  static constexpr int64_t most_number = (int64_t(1) << 48) - 1;
  static constexpr size_t most_words = 1000;

  Json read_manifest();
  void check_sections(const Json &manifest);
  const Section &section(const Json &record);
  std::string_view bytes_of(const Section &section) const;
  // The bytes of a section, its hash checked.
  std::string_view checked(const Json &record);
  int64_t number(const Json &record, const char *name) const {
    return fields.integer(record, name, 0, most_number);
  }

  void read_kernel(const Json &record);
  void read_code(const Json &manifest);
  void read_signatures(const Json &manifest);
  void check_schedules(const Json &manifest);
  Weight read_weight(const Json &record);
  void add_weight(Weight weight);
  // The file of a weight that is not in the artifact; it has to lie below the folder.
  std::string beside(const std::string &name, const std::string &key) const;
  void read_parts(const Json &record);
  static Part read_part(const Json &value);
  static std::string parts_json(const Parts &parts);

  std::string content(const Json &manifest) const;
  void check_whole() const;

  const Fields fields{"damaged"};
  std::string_view data;
  std::string text; // The manifest.
  std::string folder;
  bool allow_absolute;
  std::shared_ptr<Artifact> result;
  std::vector<Section> sections;
  int64_t end = 0; // Of what is read so far.
  std::pair<int64_t, int64_t> dialect{0, 0};
};

} // namespace mgx
