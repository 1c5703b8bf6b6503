#include "footprint.h"

#include <algorithm>

namespace mgx::emu {

Footprint::Line &Footprint::line(uint64_t address) {
  uint64_t number = address / kLine;
  Shard &shard = shards_[number % kShards];
  std::lock_guard lock(shard.mutex);
  return shard.lines[number];
}

namespace {

void append(std::vector<Touched> &out, uint64_t begin, uint64_t end, uint8_t how) {
  if (!how) return;
  if (!out.empty() && out.back().end == begin && out.back().how == how) out.back().end = end;
  else out.push_back({begin, end, how});
}

} // namespace

std::vector<Touched> Footprint::ranges() const {
  std::vector<std::pair<uint64_t, const Line *>> lines;
  for (const Shard &shard : shards_)
    for (const auto &[number, line] : shard.lines) lines.push_back({number * kLine, &line});
  std::sort(lines.begin(), lines.end());
  std::vector<Touched> out;
  for (const auto &[base, line] : lines) {
    uint64_t written = line->masks_[kWrite / 2], read = line->masks_[kRead / 2] & ~written,
             atomic = line->masks_[kAtomic / 2] & ~written;
    if (written == ~uint64_t(0)) {
      append(out, base, base + kLine, kWrite);
    } else if (read == ~uint64_t(0) && !atomic) {
      append(out, base, base + kLine, kRead);
    } else {
      for (uint64_t b = 0; b < kLine; ++b)
        append(out, base + b, base + b + 1,
               uint8_t((read >> b & 1) * kRead | (written >> b & 1) * kWrite |
                       (atomic >> b & 1) * kAtomic));
    }
  }
  return out;
}

} // namespace mgx::emu
