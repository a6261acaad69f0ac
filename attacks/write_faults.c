/* Makes system calls that write fail, for files below one folder; see write_faults.py.

   Loaded with LD_PRELOAD. A counted call is one that writes, flushes, creates, renames or removes
   below the folder, or only one of these kinds. ONE fails a single call. FULL is a full disk: from that call on, whatever needs
   more space fails. BROKEN is a dead disk: from that call on, every counted call fails. */
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
#include <sys/uio.h>
#include <unistd.h>

enum { OFF, ONE, FULL, BROKEN };

static char folder[PATH_MAX], first[PATH_MAX + 32];
static char only[32];
static long wanted, calls, failed;
static int mode = OFF, code;

void faults_arm(const char *below, const char *kind, long at, int how, int error) {
    snprintf(folder, sizeof folder, "%s", below);
    snprintf(only, sizeof only, "%s", kind);
    first[0] = 0;
    wanted = at, calls = failed = 0, code = error, mode = how;
}

void faults_disarm(void) { mode = OFF; }
long faults_calls(void) { return calls; }
long faults_failed(void) { return failed; }
const char *faults_first(void) { return first; }

static int below(const char *path) {
    size_t length = strlen(folder);
    return !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

static int located(int at, const char *name, char *path) {
    char link[64];
    ssize_t length = 0;
    if (name && name[0] == '/') return snprintf(path, PATH_MAX, "%s", name) > 0;
    if (at == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
    else snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    if ((length = readlink(link, path, PATH_MAX - 1)) < 0) return 0;
    path[length] = 0;
    if (name) snprintf(path + length, PATH_MAX - length, "/%s", name);
    return 1;
}

/* Whether this call fails; ``grows``: it needs space. */
static int fails(const char *call, int at, const char *name, int grows) {
    char path[PATH_MAX];
    int saved = errno;
    if (mode == OFF || (only[0] && strcmp(only, call))) return 0;
    if (!located(at, name, path) || !below(path)) {
        errno = saved;
        return 0;
    }
    calls++;
    if (mode == ONE ? calls != wanted : calls < wanted || (mode == FULL && !grows)) {
        errno = saved;
        return 0;
    }
    if (!failed++) snprintf(first, sizeof first, "%s %s", call, path);
    errno = code;
    return 1;
}

static int longer(int fd, off_t end) {
    struct stat now;
    return fstat(fd, &now) == 0 && end > now.st_size;
}

static int absent(int at, const char *name) {
    struct stat now;
    int saved = errno, gone = fstatat(at, name, &now, AT_SYMLINK_NOFOLLOW) != 0;
    errno = saved;
    return gone;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t size) {
    if (mode != OFF && fails("write", fd, 0, longer(fd, lseek(fd, 0, SEEK_CUR) + (off_t)size)))
        return -1;
    return REAL(write)(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (mode != OFF && fails("writev", fd, 0, 1)) return -1;
    return REAL(writev)(fd, parts, count);
}

#define PWRITE(name, offset_type)                                                     \
    ssize_t name(int fd, const void *data, size_t size, offset_type at) {             \
        if (mode != OFF && fails("pwrite", fd, 0, longer(fd, at + (off_t)size)))      \
            return -1;                                                                \
        return REAL(name)(fd, data, size, at);                                        \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define TRUNCATE(name, offset_type)                                                   \
    int name(int fd, offset_type size) {                                              \
        if (mode != OFF && fails("ftruncate", fd, 0, longer(fd, size))) return -1;    \
        return REAL(name)(fd, size);                                                  \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

#define FLUSH(name)                                                                   \
    int name(int fd) { return fails(#name, fd, 0, 0) ? -1 : REAL(name)(fd); }
FLUSH(fsync)
FLUSH(fdatasync)

#define OPEN(name)                                                                    \
    int name(const char *path, int flags, ...) {                                      \
        mode_t bits = 0;                                                              \
        if (flags & O_CREAT) {                                                        \
            va_list more;                                                             \
            va_start(more, flags);                                                    \
            bits = va_arg(more, mode_t);                                              \
            va_end(more);                                                             \
            if (mode != OFF && absent(AT_FDCWD, path) &&                              \
                fails("create", AT_FDCWD, path, 1))                                   \
                return -1;                                                            \
        }                                                                             \
        return REAL(name)(path, flags, bits);                                         \
    }
OPEN(open)
OPEN(open64)

int mkdir(const char *path, mode_t bits) {
    if (mode != OFF && absent(AT_FDCWD, path) && fails("mkdir", AT_FDCWD, path, 1)) return -1;
    return REAL(mkdir)(path, bits);
}

int rename(const char *from, const char *to) {
    return fails("rename", AT_FDCWD, to, 0) ? -1 : REAL(rename)(from, to);
}

int unlink(const char *path) {
    return fails("unlink", AT_FDCWD, path, 0) ? -1 : REAL(unlink)(path);
}

int unlinkat(int at, const char *path, int flags) {
    return fails("unlink", at, path, 0) ? -1 : REAL(unlinkat)(at, path, flags);
}

int rmdir(const char *path) {
    return fails("rmdir", AT_FDCWD, path, 0) ? -1 : REAL(rmdir)(path);
}
