//===- cpu.cpp - programs on the host's cores ------------------------------------------------===//
//
// A plan becomes a table of steps and pointers, once for each context; a run fills in the caller's
// tensors and gives the steps to the pool of threads.
//
//===------------------------------------------------------------------------------------===//
#include "cpu.h"
#include "code_library.h"
#include "cpu_executor.h"
#include "cpu_store.h"

#include <cerrno>
#include <chrono>
#include <cstring>

namespace mgx {

namespace {

class CpuSized;

// The state of one run: the arena, and the table of pointers into it.
class Context {
public:
  explicit Context(const CpuSized &sized);

  void section(const BoundPart &part) { steps(part.first, part.end); }
  int64_t number(const Place &place, int64_t bytes) const;
  void row(const BoundPart &loop, int64_t trip);
  void trip() { patience.check(); }
  void steps(size_t first, size_t end);
  void point(const std::vector<size_t> &numbers, void *data) {
    for (size_t number : numbers)
      pointers[number] = data;
  }

  Patience patience;
  Spans *spans = nullptr; // The run's spans, where they are asked for.

private:
  const CpuSized &sized;
  HostMemory memory;
  std::vector<void *> pointers;
};

class CpuSized : public Sized {
public:
  CpuSized(const Artifact &artifact, Plan plan, Code code, std::shared_ptr<CpuStore> store,
           int threads);

  void run(Tensors inputs, Tensors outputs, const mgx_run_options &options) override {
    Spans spans;
    auto start = Spans::Clock::now();
    with_context(inputs, outputs, [&](Context &context) {
      context.patience = Patience(options);
      context.spans = options.span ? &spans : nullptr;
      run_parts(bound.parts, context);
    });
    if (options.span)
      tell(spans, start, options);
  }

  void profile(Tensors inputs, Tensors outputs, mgx_profile_function function, void *user) override;

  uint64_t workspace() const override {
    std::lock_guard<std::mutex> hold(lock);
    return contexts * static_cast<uint64_t>(bound.arena_bytes + bound.scratch_bytes);
  }

private:
  friend class Context;

  template <class Work> void with_context(Tensors inputs, Tensors outputs, const Work &work) {
    std::unique_ptr<Context> context = taken(inputs, outputs);
    try {
      work(*context);
    } catch (...) {
      give_back(std::move(context));
      throw;
    }
    give_back(std::move(context));
  }
  std::unique_ptr<Context> taken(Tensors inputs, Tensors outputs);
  void give_back(std::unique_ptr<Context> context);
  // Adds a pointer to a place; returns its number among all.
  size_t point(const Place &place);
  void add(const BoundStep &step);
  // Finds or makes the memory that launches of weights alone fill; those that have to run.
  std::vector<const BoundStep *> keep();
  void run_once(size_t first);
  void tell(const Spans &spans, Spans::Clock::time_point start, const mgx_run_options &options);

  const std::shared_ptr<CpuStore> store;
  const int threads;
  std::vector<std::shared_ptr<CodeLibrary>> libraries;
  std::vector<mgx_step> native;
  std::vector<uintptr_t> fixed;              // The pointers that all contexts have,
  std::vector<size_t> in_arena;              // those of them that count from the arena,
  std::vector<std::vector<size_t>> given[2]; // and those to each input and output.
  std::map<Place, size_t> decisions;
  std::map<size_t, size_t> wholes;       // The pointer to the tensor whose rows a copy fills.
  std::map<int64_t, CpuStore::Memory> kept; // By the place's index.
  std::map<CpuStore::Key, CpuStore::Memory> made;

  mutable std::mutex lock;
  std::vector<std::unique_ptr<Context>> idle;
  uint64_t contexts = 0;
};

Context::Context(const CpuSized &sized)
    : sized(sized),
      memory(allocate(static_cast<size_t>(sized.bound.arena_bytes + sized.bound.scratch_bytes))) {
  for (uintptr_t base : sized.fixed)
    pointers.push_back(reinterpret_cast<void *>(base));
  for (size_t number : sized.in_arena)
    pointers[number] = memory.get() + sized.fixed[number];
}

void Context::steps(size_t first, size_t end) {
  if (spans)
    spans->first = first;
  int error = run_steps(sized.native.data() + first, static_cast<int64_t>(end - first),
                        pointers.data(), sized.threads, spans);
  if (error)
    fail(error == ENOMEM || error == EAGAIN ? MGX_ERROR_RESOURCE : MGX_ERROR_INTERNAL,
         "the CPU executor failed: ", system_text(error));
}

int64_t Context::number(const Place &place, int64_t bytes) const {
  const void *data = pointers[sized.decisions.at(place)];
  if (bytes == condition_bytes)
    return *static_cast<const signed char *>(data);
  int64_t value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

void Context::row(const BoundPart &loop, int64_t trip) {
  for (size_t step : loop.rows) {
    const mgx_step &copy = sized.native[step];
    pointers[static_cast<size_t>(copy.first_argument) + 1] =
        static_cast<char *>(pointers[sized.wholes.at(step)]) + trip * copy.extent;
  }
}

CpuSized::CpuSized(const Artifact &artifact, Plan plan, Code code, std::shared_ptr<CpuStore> shared,
                   int threads)
    : Sized(artifact, std::move(plan), std::move(code), true), store(std::move(shared)),
      threads(threads) {
  auto needed = static_cast<uint64_t>(bound.arena_bytes) +
                static_cast<uint64_t>(bound.scratch_bytes) +
                static_cast<uint64_t>(bound.kept_bytes);
  check_memory(bound, needed, host_memory_bytes(), "this machine");
  for (const CodeObject &one : bound.code)
    libraries.push_back(CodeLibrary::of(one));
  given[MGX_INPUT].resize(bound.plan.inputs.size());
  given[MGX_OUTPUT].resize(bound.plan.outputs.size());
  std::unique_lock<std::mutex> making(store->making, std::defer_lock);
  if (!bound.once.empty())
    making.lock();
  std::vector<const BoundStep *> once = keep();
  for (const BoundStep &step : bound.steps)
    add(step);
  for (const BoundStep *launch : once)
    add(*launch);
  for (size_t number = 0; number < bound.steps.size(); ++number)
    if (bound.steps[number].is_row)
      wholes[number] = point(bound.steps[number].places[1]);
  for (const Place &place : bound.decisions())
    decisions[place] = point(place);
  if (!once.empty())
    run_once(bound.steps.size());
}

std::vector<const BoundStep *> CpuSized::keep() {
  std::vector<const BoundStep *> fresh;
  std::vector<std::pair<int64_t, CpuStore::Key>> indices;
  std::vector<size_t> counts;
  for (const BoundStep &launch : bound.once) {
    CpuStore::Key key{bound.code[static_cast<size_t>(launch.kernel)].sha256,
                      launch.launch->function,
                      {},
                      launch.launch->kept};
    int64_t index = 0;
    for (const Place &place : launch.places)
      if (place.kind == Place::Kind::weight)
        std::get<2>(key).push_back(place.index);
      else
        index = place.index;
    auto known = store->made.find(key);
    if (known != store->made.end()) {
      kept[index] = known->second;
      continue;
    }
    fresh.push_back(&launch);
    indices.emplace_back(index, key);
    counts.push_back(static_cast<size_t>(launch.launch->kept));
  }
  std::vector<CpuStore::Memory> memory = allocate(counts);
  for (size_t i = 0; i < memory.size(); ++i)
    made[indices[i].second] = kept[indices[i].first] = memory[i];
  return fresh;
}

// Fills the memory that launches of weights alone fill, and gives back the weights' pages: later
// launches name these weights still, and seldom read them.
void CpuSized::run_once(size_t first) {
  auto context = std::make_unique<Context>(*this);
  context->steps(first, native.size());
  give_back(std::move(context));
  contexts = 1;
  for (const BoundStep &step : bound.once)
    for (const Place &place : step.places)
      if (place.kind == Place::Kind::weight)
        store->drop(static_cast<size_t>(place.index));
  for (const auto &[key, memory] : made)
    store->bytes += static_cast<uint64_t>(std::get<3>(key));
  store->made.merge(made);
}

void CpuSized::add(const BoundStep &step) {
  auto first = static_cast<int64_t>(fixed.size());
  if (step.launch) {
    void *function = libraries[static_cast<size_t>(step.kernel)]->function(step.launch->function);
    native.push_back({reinterpret_cast<mgx_function>(function), step.launch->grid[0], first});
  } else {
    native.push_back({nullptr, step.bytes, first});
  }
  for (const Place &place : step.places)
    point(place);
}

size_t CpuSized::point(const Place &place) {
  size_t number = fixed.size();
  auto base = static_cast<uintptr_t>(place.index);
  auto tensor = static_cast<size_t>(place.index);
  switch (place.kind) {
  case Place::Kind::scratch:
    base += static_cast<uintptr_t>(bound.arena_bytes);
    [[fallthrough]];
  case Place::Kind::arena:
    in_arena.push_back(number);
    break;
  case Place::Kind::kept:
    base = reinterpret_cast<uintptr_t>(kept.at(place.index).get());
    break;
  case Place::Kind::weight:
    base = reinterpret_cast<uintptr_t>(store->weight(tensor));
    break;
  case Place::Kind::size:
    break;
  case Place::Kind::input:
  case Place::Kind::output:
    given[place.kind == Place::Kind::input ? MGX_INPUT : MGX_OUTPUT][tensor].push_back(number);
    base = 0;
  }
  fixed.push_back(base);
  return number;
}

std::unique_ptr<Context> CpuSized::taken(Tensors inputs, Tensors outputs) {
  std::unique_ptr<Context> context;
  {
    std::lock_guard<std::mutex> hold(lock);
    if (!idle.empty()) {
      context = std::move(idle.back());
      idle.pop_back();
    } else {
      ++contexts;
      idle.reserve(contexts); // So that giving it back allocates nothing.
    }
  }
  if (!context)
    context = std::make_unique<Context>(*this);
  for (size_t i = 0; i < inputs.size(); ++i)
    context->point(given[MGX_INPUT][i], inputs[i].data);
  for (size_t i = 0; i < outputs.size(); ++i)
    context->point(given[MGX_OUTPUT][i], outputs[i].data);
  return context;
}

void CpuSized::give_back(std::unique_ptr<Context> context) {
  context->spans = nullptr;
  std::lock_guard<std::mutex> hold(lock);
  idle.push_back(std::move(context));
}

void CpuSized::tell(const Spans &spans, Spans::Clock::time_point start,
                    const mgx_run_options &options) {
  auto seconds = [&](Spans::Clock::time_point when) {
    return std::chrono::duration<double>(when - start).count();
  };
  for (size_t thread = 0; thread < spans.threads.size(); ++thread)
    for (const Spans::Span &one : spans.threads[thread]) {
      mgx_span span{sizeof span, thread, bound.steps[one.step].step, seconds(one.start),
                    seconds(one.end)};
      options.span(options.user, &span);
    }
}

// Times each step, which runs alone.
class TimedContext {
public:
  TimedContext(Context &context, const BoundPlan &bound, mgx_profile_function function, void *user)
      : context(context), bound(bound), function(function), user(user) {}

  int64_t number(const Place &place, int64_t bytes) const { return context.number(place, bytes); }
  void row(const BoundPart &loop, int64_t trip) { context.row(loop, trip); }
  void trip() {}
  void section(const BoundPart &part) {
    for (size_t step = part.first; step < part.end; ++step) {
      auto start = std::chrono::steady_clock::now();
      context.steps(step, step + 1);
      std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      mgx_profile_row row = row_of(bound.steps[step], taken.count());
      function(user, &row);
    }
  }

private:
  Context &context;
  const BoundPlan &bound;
  mgx_profile_function function;
  void *user;
};

void CpuSized::profile(Tensors inputs, Tensors outputs, mgx_profile_function function, void *user) {
  with_context(inputs, outputs, [&](Context &context) {
    TimedContext timed(context, bound, function, user);
    run_parts(bound.parts, timed);
  });
}

class CpuProgram : public Program {
public:
  CpuProgram(std::shared_ptr<const Artifact> artifact, std::shared_ptr<Device> device,
             std::string target, const mgx_program_options &options)
      : Program(std::move(artifact), std::move(device), std::move(target), options),
        store(CpuStore::of(this->artifact)) {}

  uint64_t weight_bytes() const override { return store->bytes; }

protected:
  std::shared_ptr<Sized> make(Plan plan, Code code) override {
    return std::make_shared<CpuSized>(*artifact, std::move(plan), std::move(code), store,
                                      device->threads());
  }

private:
  const std::shared_ptr<CpuStore> store;
};

} // namespace

std::shared_ptr<Program> make_cpu_program(std::shared_ptr<const Artifact> artifact,
                                          std::shared_ptr<Device> device, std::string target,
                                          const mgx_program_options &options) {
  return std::make_shared<CpuProgram>(std::move(artifact), std::move(device), std::move(target),
                                      options);
}

} // namespace mgx
