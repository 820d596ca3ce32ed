/* Preloaded into a process, it ends that process by SIGKILL in the middle of its n-th change of a file: half of a write
   is done, and of anything else nothing. What a power cut leaves of the page cache is up to fsync and not tested here. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static long left = -1, seen = 0;

void power_cut_arm(long n) { left = n; seen = 0; }
long power_cut_seen(void) { return seen; }

static int due(void) {
    if (left < 0) return 0;
    seen++;
    return left > 0 && --left == 0;
}
static void die(void) { kill(getpid(), SIGKILL); pause(); }
static int is_file(int fd) {
    struct stat found;
    return fstat(fd, &found) == 0 && S_ISREG(found.st_mode);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t size) {
    if (left >= 0 && is_file(fd) && due()) { REAL(write)(fd, data, size / 2); die(); }
    return REAL(write)(fd, data, size);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    if (left >= 0 && is_file(fd) && due()) { REAL(pwrite)(fd, data, size / 2, at); die(); }
    return REAL(pwrite)(fd, data, size, at);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    if (left >= 0 && is_file(fd) && due()) { REAL(pwrite64)(fd, data, size / 2, at); die(); }
    return REAL(pwrite64)(fd, data, size, at);
}
int rename(const char *from, const char *to) {
    if (due()) die();
    return REAL(rename)(from, to);
}
int unlink(const char *path) {
    if (due()) die();
    return REAL(unlink)(path);
}
int ftruncate(int fd, off_t size) {
    if (due()) die();
    return REAL(ftruncate)(fd, size);
}
int ftruncate64(int fd, off64_t size) {
    if (due()) die();
    return REAL(ftruncate64)(fd, size);
}
