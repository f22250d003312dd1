/* Shifts the wall clock of a process (LD_PRELOAD).
 *
 * The file named by TG_WALL_CLOCK has the offset in seconds. It is read each time the process reads the clock,
 * so the clock can be shifted while the process runs. Monotonic clocks are unchanged, as when a real clock is set.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset_s(void) {
  int kept = errno;
  long offset = 0;
  const char *path = getenv("TG_WALL_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file >= 0) {
    char text[32];
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length > 0) {
      text[length] = 0;
      offset = strtol(text, NULL, 10);
    }
  }
  errno = kept;
  return offset;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real(clock, now);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += offset_s();
  return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  static int (*real)(struct timeval *, void *);
  if (!real) real = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
  int failed = real(now, zone);
  if (!failed) now->tv_sec += offset_s();
  return failed;
}

time_t time(time_t *now) {
  struct timespec precise;
  if (clock_gettime(CLOCK_REALTIME, &precise)) return (time_t)-1;
  if (now) *now = precise.tv_sec;
  return precise.tv_sec;
}
