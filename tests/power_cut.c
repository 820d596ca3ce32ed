/* Preloaded into a process, it ends that process by SIGKILL in the middle of its n-th change of a file: half of a write
   is done, and of anything else nothing. That leaves the page cache whole; what a power cut leaves of it is up to fsync,
   and can be worked out from the record that this library writes if it is asked to (tests/power_cut.py).

   It can also fill the disk instead: from the n-th write on, none finds room. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static long left = -1, seen = 0, room = -1, written = 0;

void power_cut_arm(long n) { left = n; seen = 0; }
long power_cut_seen(void) { return seen; }
void power_cut_fill(long writes) { room = writes; written = 0; }
long power_cut_written(void) { return written; }

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

static int is_full(int fd) {
    if (room < 0 || !is_file(fd) || ++written <= room) return 0;
    errno = ENOSPC;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int record = -1;

void power_cut_record(int fd) { record = fd; }

/* One line: what was done, the name of the file, its permissions, and what else belongs to it. */
static void note(const char *done, const char *path, int fd, const char *other) {
    struct stat found = {0};
    char link[64], name[4096] = "";
    if (record < 0) return;
    if (fd >= 0) {
        fstat(fd, &found);
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t size = readlink(link, name, sizeof name - 1);
        name[size > 0 ? size : 0] = 0;
        path = name;
    }
    dprintf(record, "%s\t%s\t%o\t%s\n", done, path, found.st_mode & 07777, other);
}
static void note_size(const char *done, int fd, ssize_t size) {
    char text[32];
    if (size < 0) return;
    snprintf(text, sizeof text, "%zd", size);
    note(done, "", fd, text);
}
static int opened(int fd, int flags) {
    if (record >= 0 && fd >= 0 && flags & (O_CREAT | O_TRUNC)) note("open", "", fd, flags & O_TRUNC ? "emptied" : "");
    return fd;
}
#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...) {                                                                       \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;                                        \
        va_end(more);                                                                                                  \
        return opened(REAL(name)(path, flags, mode), flags);                                                           \
    }
OPEN(open)
OPEN(open64)
int fsync(int fd) {
    int result = REAL(fsync)(fd);
    if (!result) note("fsync", "", fd, "");
    return result;
}
int fchmod(int fd, mode_t mode) {
    int result = REAL(fchmod)(fd, mode);
    if (!result) note("chmod", "", fd, "");
    return result;
}

ssize_t write(int fd, const void *data, size_t size) {
    if (is_full(fd)) return -1;
    if (left >= 0 && is_file(fd) && due()) { REAL(write)(fd, data, size / 2); die(); }
    ssize_t done = REAL(write)(fd, data, size);
    if (record >= 0 && fd != record && is_file(fd)) note_size("write", fd, done);
    return done;
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    if (is_full(fd)) return -1;
    if (left >= 0 && is_file(fd) && due()) { REAL(pwrite)(fd, data, size / 2, at); die(); }
    return REAL(pwrite)(fd, data, size, at);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    if (is_full(fd)) return -1;
    if (left >= 0 && is_file(fd) && due()) { REAL(pwrite64)(fd, data, size / 2, at); die(); }
    return REAL(pwrite64)(fd, data, size, at);
}
int rename(const char *from, const char *to) {
    if (due()) die();
    int result = REAL(rename)(from, to);
    if (!result) note("rename", from, -1, to);
    return result;
}
int unlink(const char *path) {
    if (due()) die();
    int result = REAL(unlink)(path);
    if (!result) note("unlink", path, -1, "");
    return result;
}
int ftruncate(int fd, off_t size) {
    if (due()) die();
    return REAL(ftruncate)(fd, size);
}
int ftruncate64(int fd, off64_t size) {
    if (due()) die();
    return REAL(ftruncate64)(fd, size);
}
