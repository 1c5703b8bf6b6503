//===- artifact.h - a .mgx file, read without trusting it ---------------------------===//
//
// Every number, offset, size and hash is checked before what it describes is used, so that a file
// that is cut short, damaged or made to harm gives an error and nothing else. The checks are those
// of mgx_mlir/artifact/reader.py; docs/artifact.md describes the file.
//
//===----------------------------------------------------------------------------===//
#pragma once

#include "code.h"
#include "mapping.h"
#include "weights.h"

#include <map>
#include <memory>

namespace mgx {

// A program's signature, as the file has it, unchecked.
struct Signature {
  std::string key, value; // In hexadecimal.
  std::map<std::string, std::string> code;
};

// A step of a graph of a program in parts: a node of the host, or a segment with its plans.
struct Part {
  std::vector<int64_t> nodes;
  std::string op, reason;
  std::vector<Plan> plans;
};

struct Parts {
  std::vector<std::string> inputs;
  std::map<std::string, std::string> weights;
  std::map<std::string, std::vector<Part>> graphs;
  std::string signature, model_sha256;

  // The operators that the host runs, each once, with ", " between them.
  std::string operators() const;
};

class Artifact {
public:
  static std::shared_ptr<const Artifact> open(const std::string &path, bool allow_absolute);
  static std::shared_ptr<const Artifact> read(std::shared_ptr<const Bytes> bytes,
                                              bool allow_absolute = false);
  // The artifact of parts that the caller keeps, and vouches for.
  static std::shared_ptr<const Artifact> assembled(const mgx_assembly &assembly);
  static void check(const mgx_assembly &assembly, bool with_code);

  std::string name, producer, content_hash;
  Plan plan;
  std::vector<std::string> kernels; // The hash of each.
  std::vector<Weight> weights;      // In the order of the file.
  std::map<std::string, Code> code; // By target, one a kernel.
  std::map<std::string, std::string> code_hashes;
  std::vector<Signature> signatures;
  std::optional<Parts> parts;
  std::vector<std::string> targets; // The names of those with code.

  // nullptr for a key that no weight has.
  const Weight *weight(const std::string &key) const;
  bool is_assembled() const { return !bytes; }

private:
  friend class ArtifactReader;
  std::shared_ptr<const Bytes> bytes;
  std::map<std::string, size_t> by_key;
};

} // namespace mgx
