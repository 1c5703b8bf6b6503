#pragma once

#include <csignal>
#include <sys/types.h>

namespace mgx_ep {

// While it lives, a SIGINT that somebody sends to this process alone, as `kill` does, goes to a
// child too; Ctrl-C on a terminal reaches both by itself. What the host does with it, it still
// does.
class Interrupts {
public:
  explicit Interrupts(pid_t child);
  ~Interrupts();
  Interrupts(const Interrupts &) = delete;

private:
  int place_ = -1;
};

} // namespace mgx_ep
