#include "interrupts.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>

namespace mgx_ep {

namespace {

// The handler reads it, so it takes no lock and no memory. A child more is not told.
constexpr int MOST = 64;
std::array<std::atomic<pid_t>, MOST> children;

std::mutex changing;
int count; // Of those that live.
struct sigaction before;

void forward(int number, siginfo_t *info, void *context) {
  int error = errno;
  if (info->si_code <= 0) // A process sent it, not the terminal.
    for (auto &child : children)
      if (pid_t process = child.load(); process != 0)
        kill(process, number);
  errno = error;
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler == SIG_DFL) {
    signal(number, SIG_DFL);
    raise(number); // Delivered when the handler returns.
  } else {
    before.sa_handler(number);
  }
}

// Nobody handles the signal where the host ignores it.
bool ignored() { return !(before.sa_flags & SA_SIGINFO) && before.sa_handler == SIG_IGN; }

} // namespace

Interrupts::Interrupts(pid_t child) {
  std::lock_guard<std::mutex> hold(changing);
  for (int i = 0; i < MOST && place_ < 0; ++i)
    if (pid_t none = 0; children[static_cast<size_t>(i)].compare_exchange_strong(none, child))
      place_ = i;
  if (count++ != 0 || sigaction(SIGINT, nullptr, &before) != 0 || ignored())
    return;
  struct sigaction own = {};
  own.sa_sigaction = forward;
  own.sa_mask = before.sa_mask;
  own.sa_flags = SA_SIGINFO | (before.sa_flags & (SA_RESTART | SA_ONSTACK | SA_NODEFER));
  sigaction(SIGINT, &own, nullptr);
}

Interrupts::~Interrupts() {
  std::lock_guard<std::mutex> hold(changing);
  if (place_ >= 0)
    children[static_cast<size_t>(place_)] = 0;
  struct sigaction now;
  // A handler that the host has set meanwhile stays.
  if (--count == 0 && sigaction(SIGINT, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
      now.sa_sigaction == forward)
    sigaction(SIGINT, &before, nullptr);
}

} // namespace mgx_ep
