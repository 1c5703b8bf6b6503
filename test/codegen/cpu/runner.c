/* Runs functions of a CPU's code object as a script on standard input says, one a line:
 *
 *     buffer BYTES FILE    more memory, filled from FILE ('-': with noise)
 *     call NAME ITEMS COUNT (BUFFER OFFSET)...
 *     save BUFFER FILE
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

static void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

int main(int count, char **arguments) {
  char word[16], name[512];
  void *buffers[MOST], *given[MOST];
  long sizes[MOST], items, used, number = 0;
  void *library = count == 2 ? dlopen(arguments[1], RTLD_NOW) : NULL;
  if (!library)
    fail(dlerror());
  while (scanf("%15s", word) == 1) {
    if (!strcmp(word, "buffer") && number < MOST) {
      if (scanf("%ld %511s", &sizes[number], name) != 2)
        fail("buffer");
      size_t rounded = (sizes[number] + 127) / 64 * 64;
      memset(buffers[number] = aligned_alloc(64, rounded), 0xA5, rounded);
      FILE *file = strcmp(name, "-") ? fopen(name, "rb") : NULL;
      if (file && (long)fread(buffers[number], 1, sizes[number], file) != sizes[number])
        fail(name);
      number++;
    } else if (!strcmp(word, "call")) {
      if (scanf("%511s %ld %ld", name, &items, &used) != 3 || used > MOST)
        fail("call");
      for (long i = 0; i < used; i++) {
        long buffer, offset;
        if (scanf("%ld %ld", &buffer, &offset) != 2)
          fail("call");
        given[i] = (char *)buffers[buffer] + offset;
      }
      void (*function)(void **, int64_t, int64_t) =
          (void (*)(void **, int64_t, int64_t))dlsym(library, name);
      if (!function)
        fail(name);
      function(given, 0, items);
    } else if (!strcmp(word, "save")) {
      if (scanf("%ld %511s", &used, name) != 2)
        fail("save");
      FILE *file = fopen(name, "wb");
      if (!file || (long)fwrite(buffers[used], 1, sizes[used], file) != sizes[used])
        fail(name);
      fclose(file);
    } else {
      fail(word);
    }
  }
  return 0;
}
