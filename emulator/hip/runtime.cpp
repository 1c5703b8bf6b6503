#include "runtime.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "capture.h"
#include "event.h"
#include "graph.h"
#include "memory.h"
#include "module.h"
#include "settings.h"
#include "stream.h"

namespace mgx::hip {
namespace {

std::mutex fault_mutex;
std::string& fault_record() {
  static std::string* text = new std::string;
  return *text;
}

std::string trimmed(const std::string& text) {
  size_t from = text.find_first_not_of(" \t");
  if (from == std::string::npos) return "";
  return text.substr(from, text.find_last_not_of(" \t") - from + 1);
}

}  // namespace

Device* Devices::add(const emu::Chip& chip) {
  std::lock_guard lock(mutex_);
  size_t ordinal = size();
  if (ordinal == kMost) return nullptr;
  devices_[ordinal] = std::make_unique<Device>(int(ordinal), chip);
  count_.store(ordinal + 1, std::memory_order_release);
  return devices_[ordinal].get();
}

Runtime::Runtime() {
  const std::string& names = settings().devices;
  std::vector<const emu::Chip*> chips;
  for (size_t at = 0; at < names.size();) {
    size_t comma = std::min(names.find(',', at), names.size());
    std::string name = trimmed(names.substr(at, comma - at));
    at = comma + 1;
    if (name.empty()) continue;
    if (const emu::Chip* chip = emu::find_chip(name)) {
      chips.push_back(chip);
      continue;
    }
    std::string known;
    for (const emu::Chip& chip : emu::all_chips()) known += std::string(" ") + chip.name;
    std::fprintf(stderr,
                 "mgx emulator: MGX_EMULATED_DEVICES names \"%s\", which is not emulated; "
                 "known:%s. No device is visible.\n",
                 name.c_str(), known.c_str());
    return;
  }
  if (chips.size() > Devices::kMost) {
    std::fprintf(stderr,
                 "mgx emulator: MGX_EMULATED_DEVICES names %zu devices; at most %zu are "
                 "emulated. No device is visible.\n",
                 chips.size(), Devices::kMost);
    return;
  }
  for (const emu::Chip* chip : chips) devices.add(*chip);
}

emu::ThreadPool& Runtime::workers() {
  std::call_once(workers_once_,
                 [this] { workers_ = std::make_unique<emu::ThreadPool>(settings().threads); });
  return *workers_;
}

Runtime& runtime() {
  static Runtime* instance = new Runtime;
  return *instance;
}

ThreadState& thread_state() {
  thread_local ThreadState state;
  return state;
}

hipError_t sticky_error_of_current_device() {
  Runtime& all = runtime();
  size_t ordinal = size_t(thread_state().device);
  return ordinal < all.devices.size() ? all.devices[ordinal].fault() : hipSuccess;
}

std::string last_fault_text() {
  std::lock_guard lock(fault_mutex);
  return fault_record();
}

double now_ms() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

emu::Memory& Device::memory() {
  if (emu::Memory* made = memory_ready_.load(std::memory_order_acquire)) return *made;
  std::lock_guard lock(make_mutex_);
  if (!memory_) {
    memory_ = std::make_unique<emu::Memory>();
    memory_ready_.store(memory_.get(), std::memory_order_release);
  }
  return *memory_;
}

Stream& Device::null_stream() {
  if (Stream* made = null_ready_.load(std::memory_order_acquire)) return *made;
  std::lock_guard lock(make_mutex_);
  if (!null_stream_) {
    null_stream_ = std::make_shared<Stream>(*this, hipStreamDefault, 0);
    null_ready_.store(null_stream_.get(), std::memory_order_release);
  }
  return *null_stream_;
}

std::shared_ptr<Pool> Device::default_pool() {
  std::lock_guard lock(make_mutex_);
  if (!default_pool_) {
    default_pool_ = std::make_shared<Pool>(*this);
    default_pool_->handle = static_cast<hipMemPool_t>(runtime().pools.add(default_pool_));
  }
  return default_pool_;
}

std::shared_ptr<Pool> Device::current_pool() {
  {
    std::lock_guard lock(make_mutex_);
    if (current_pool_) return current_pool_;
  }
  return default_pool();
}

void Device::set_current_pool(std::shared_ptr<Pool> pool) {
  std::lock_guard lock(make_mutex_);
  current_pool_ = std::move(pool);
}

void Device::add_stream(const std::shared_ptr<Stream>& stream) {
  std::lock_guard lock(state_mutex);
  std::vector<std::weak_ptr<Stream>> live;
  for (auto& known : streams_)
    if (!known.expired()) live.push_back(known);
  live.push_back(stream);
  streams_ = std::move(live);
}

std::vector<std::shared_ptr<Stream>> Device::streams() {
  std::vector<std::shared_ptr<Stream>> found{null_stream().shared_from_this()};
  std::lock_guard lock(state_mutex);
  for (auto& known : streams_)
    if (auto stream = known.lock()) found.push_back(std::move(stream));
  return found;
}

void Device::keep_last(Completed work, bool blocking) {
  auto known = [](const auto& entry) {
    return entry.first->done() && is_known_to_host(entry.first->order());
  };
  gone.erase(std::remove_if(gone.begin(), gone.end(), known), gone.end());
  gone.emplace_back(std::move(work), blocking);
}

void Device::drain() {
  for (const auto& stream : streams()) stream->drain();
  std::vector<std::pair<Completed, bool>> last;
  {
    std::lock_guard order(order_mutex);
    last.swap(gone);
  }
  for (const auto& [work, blocking] : last) host_waits(work);
}

void Device::synchronize() {
  drain();
  check_fault();
}

void Device::raise(hipError_t code, const std::string& text) {
  {
    std::lock_guard lock(state_mutex);
    if (fault_.load() != hipSuccess) return;  // the first fault is the one that explains
    fault_text_ = text;
    fault_.store(code, std::memory_order_release);
  }
  {
    std::lock_guard lock(fault_mutex);
    fault_record() = text;
  }
  std::fprintf(stderr, "mgx emulator: device %d (%s): %s: %s\n", ordinal, chip.name,
               error_name(code), text.c_str());
}

std::string Device::fault_text() const {
  std::lock_guard lock(state_mutex);
  return fault_text_;
}

void Device::reset() {
  drain();
  Runtime& all = runtime();
  for (const auto& stream : all.streams.all()) {
    if (&stream->device != this) continue;
    abandon_capture(*stream);
    if (all.streams.take(stream->handle)) stream->close();
  }
  for (const auto& event : all.events.all())
    if (&event->device == this) event->record(nullptr);
  for (const auto& exec : all.executables.all())
    if (&exec->device == this) all.executables.take(exec->handle);
  retire_graphs(*this);
  for (const auto& module : all.modules.all()) {
    if (&module->device != this) continue;
    module->drop_functions();
    all.modules.take(module->handle);
  }
  unload_fat_binaries(*this);
  for (const auto& pool : all.pools.all())
    if (&pool->device == this) pool->trim(0);
  set_current_pool(nullptr);
  for (const auto& allocation : allocations_of(*this))
    if (!allocation->of_graph) release(allocation);
  for (const auto& pool : all.pools.all())
    if (&pool->device == this) pool->forget();
  forget_peer_mappings(*this);

  std::lock_guard lock(state_mutex);
  fault_ = hipSuccess;
  fault_text_.clear();
  limits = Limits{};
  flags = 0;
  profiles.clear();
}

}  // namespace mgx::hip
