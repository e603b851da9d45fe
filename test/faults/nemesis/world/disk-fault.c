/* LD_PRELOAD: fsync and fdatasync are slow or fail, as the file DISK_FAULT says: "slow MILLISECONDS" or "fail PERCENT". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int fault(void) {
  const char *path = getenv("DISK_FAULT");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return 0;
  char text[64];
  ssize_t bytes = read(file, text, sizeof text - 1);
  close(file);
  if (bytes <= 0) return 0;
  text[bytes] = 0;
  int value;
  if (sscanf(text, "slow %d", &value) == 1) usleep(value * 1000);
  if (sscanf(text, "fail %d", &value) == 1 && rand() % 100 < value) return errno = EIO;
  return 0;
}

int fsync(int file) {
  static int (*real)(int);
  if (!real) real = dlsym(RTLD_NEXT, "fsync");
  return fault() ? -1 : real(file);
}

int fdatasync(int file) {
  static int (*real)(int);
  if (!real) real = dlsym(RTLD_NEXT, "fdatasync");
  return fault() ? -1 : real(file);
}
