/* What a program without AVX-512 and AMX sees of the processor: each `cpuid` of its library was
   replaced by `ud2`, which ends here. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>

/* Of leaf 7: AVX-512 in all its parts, AMX; of its subleaf 1: AVX-VNNI and what else is newer. */
static const unsigned EBX = 1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 |
                            1u << 30 | 1u << 31;
static const unsigned ECX = 1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14;
static const unsigned EDX = 1u << 2 | 1u << 3 | 1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25;

static void answer(int number, siginfo_t *info, void *context) {
  (void)number, (void)info;
  greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
  const unsigned char *code = (const unsigned char *)regs[REG_RIP];
  if (code[0] != 0x0f || code[1] != 0x0b)
    abort();
  unsigned leaf = (unsigned)regs[REG_RAX], part = (unsigned)regs[REG_RCX], a, b, c, d;
  __cpuid_count(leaf, part, a, b, c, d);
  if (leaf == 7 && part == 0)
    b &= ~EBX, c &= ~ECX, d &= ~EDX;
  if (leaf == 7 && part == 1)
    a = b = c = d = 0;
  regs[REG_RAX] = a, regs[REG_RBX] = b, regs[REG_RCX] = c, regs[REG_RDX] = d;
  regs[REG_RIP] += 2;
}

void answer_cpuid(void) {
  struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigaction(SIGILL, &action, NULL);
}
