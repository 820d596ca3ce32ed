/* Preloaded into a process, and so into its children, it makes the wall clock wrong by as much as a file says, also
   while they run, and answers in the kernel's place whether the clock is synchronised. Clocks that never jump stay as
   they are. The file, which is mapped, holds seconds as a double and a double that is not 0 if it is synchronised. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static const double right[2] = {0, 0};
static const volatile double *wrong = right;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("NIGHTJAR_TEST_WRONG_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof right, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) wrong = mapped;
    if (fd >= 0) close(fd);
}

static int is_wall(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static __typeof__(&clock_gettime) real;
    if (!real) real = REAL(clock_gettime);
    int result = real(clock, now);
    if (!result && is_wall(clock)) {
        double by_s = floor(wrong[0]);
        long rest = now->tv_nsec + (long)((wrong[0] - by_s) * 1e9);
        now->tv_sec += (time_t)by_s + rest / 1000000000;
        now->tv_nsec = rest % 1000000000;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec read;
    (void)zone;
    if (!now) return 0;
    int result = clock_gettime(CLOCK_REALTIME, &read);
    now->tv_sec = read.tv_sec;
    now->tv_usec = read.tv_nsec / 1000;
    return result;
}

time_t time(time_t *kept) {
    struct timespec read;
    clock_gettime(CLOCK_REALTIME, &read);
    if (kept) *kept = read.tv_sec;
    return read.tv_sec;
}

int adjtimex(struct timex *answer) {
    struct timespec read;
    int result = REAL(adjtimex)(answer);
    if (result < 0) return result;
    clock_gettime(CLOCK_REALTIME, &read);
    answer->time.tv_sec = read.tv_sec;
    answer->status = wrong[1] ? answer->status & ~STA_UNSYNC : answer->status | STA_UNSYNC;
    return wrong[1] ? TIME_OK : TIME_ERROR;
}
