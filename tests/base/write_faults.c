// A disk that fails: preloaded into a process, it lets chosen calls that write fail, SQLite's too.
//
// Only what lies in the folder that is given counts. `fault_at(n, error, lasts)` lets the n-th call
// from now on fail, and with `lasts` all that follow; n = 0 lets none fail. A failing write has
// first written half of what it was given, as a disk does that becomes full.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char folder[PATH_MAX];
static long n_calls, chosen;
static int chosen_error, is_lasting;

void fault_in(const char *path) { strncpy(folder, path, sizeof folder - 1); }

void fault_at(long n, int error, int lasts) {
    n_calls = 0;
    chosen = n;
    chosen_error = error;
    is_lasting = lasts;
}

long fault_calls(void) { return n_calls; }

static int is_inside(const char *path) {
    return folder[0] && strncmp(path, folder, strlen(folder)) == 0;
}

static int is_open_inside(int descriptor) {
    char name[64], path[PATH_MAX];
    snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
    ssize_t n = readlink(name, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return is_inside(path);
}

static int fails(void) {
    n_calls++;
    if (!chosen || !(n_calls == chosen || (is_lasting && n_calls > chosen))) return 0;
    errno = chosen_error;
    return 1;
}

#define REAL(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int d, const void *data, size_t n) {
    if (is_open_inside(d) && fails()) {
        REAL(write)(d, data, n / 2);
        errno = chosen_error;
        return -1;
    }
    return REAL(write)(d, data, n);
}

ssize_t pwrite64(int d, const void *data, size_t n, off64_t at) {
    if (is_open_inside(d) && fails()) {
        REAL(pwrite64)(d, data, n / 2, at);
        errno = chosen_error;
        return -1;
    }
    return REAL(pwrite64)(d, data, n, at);
}

int fsync(int d) { return is_open_inside(d) && fails() ? -1 : REAL(fsync)(d); }
int fdatasync(int d) { return is_open_inside(d) && fails() ? -1 : REAL(fdatasync)(d); }
int ftruncate64(int d, off64_t n) {
    return is_open_inside(d) && fails() ? -1 : REAL(ftruncate64)(d, n);
}
int rename(const char *from, const char *to) {
    return is_inside(to) && fails() ? -1 : REAL(rename)(from, to);
}
int unlink(const char *path) { return is_inside(path) && fails() ? -1 : REAL(unlink)(path); }
int mkdir(const char *path, mode_t mode) {
    return is_inside(path) && fails() ? -1 : REAL(mkdir)(path, mode);
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = flags & O_CREAT ? va_arg(rest, int) : 0;
    va_end(rest);
    struct stat found;
    if ((flags & O_CREAT) && is_inside(path) && stat(path, &found) < 0 && fails()) return -1;
    return REAL(open64)(path, flags, mode);
}
