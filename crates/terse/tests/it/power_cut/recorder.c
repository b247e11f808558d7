// Preloaded into terse by power_cut.rs: writes down, in order, what the process does to the files
// below $RECORD_ROOT, so that the test can rebuild what a power cut would have left.
//
// A record is a line "KIND PATH" (with "NEWPATH" after a tab for R and L), "W PATH OFFSET LENGTH" followed
// by the bytes and a line break, or "T PATH SIZE". Memory maps are not recorded.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES 65536
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *paths[FILES];
static int record_fd = -1;
static char root[PATH_MAX];

__attribute__((constructor)) static void begin(void) {
    const char *to = getenv("RECORD_TO"), *from = getenv("RECORD_ROOT");
    if (!to || !from) return;
    snprintf(root, sizeof root, "%s", from);
    record_fd = (int)syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int is_recorded(const char *path) {
    size_t length = strlen(root), size = path ? strlen(path) : 0;
    if (record_fd < 0 || !path || strncmp(path, root, length)) return 0;
    return size < 4 || strcmp(path + size - 4, "-shm");
}

static void put(const void *bytes, size_t length) {
    const char *at = bytes;
    while (length) {
        long done = syscall(SYS_write, record_fd, at, length);
        if (done <= 0) abort();
        at += done, length -= (size_t)done;
    }
}

static void note(const char *format, ...) {
    char line[3 * PATH_MAX];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    put(line, (size_t)length);
}

// The absolute path of a name, without following its last part.
static char *absolute(int dir, const char *name, char *to) {
    if (name[0] == '/') snprintf(to, PATH_MAX, "%s", name);
    else if (dir != AT_FDCWD && dir >= 0 && dir < FILES && paths[dir]) snprintf(to, PATH_MAX, "%s/%s", paths[dir], name);
    else {
        char link[64], folder[PATH_MAX];
        if (dir == AT_FDCWD) { if (!getcwd(folder, sizeof folder)) folder[0] = 0; }
        else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
            ssize_t length = readlink(link, folder, sizeof folder - 1);
            folder[length < 0 ? 0 : length] = 0;
        }
        snprintf(to, PATH_MAX, "%s/%s", folder, name);
    }
    size_t length = strlen(to);
    while (length > 1 && to[length - 1] == '/') to[--length] = 0;
    return to;
}

static const char *path_of(int fd) { return fd >= 0 && fd < FILES ? paths[fd] : NULL; }

static int open_recorded(int dir, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    pthread_mutex_lock(&lock);
    absolute(dir, name, path);
    int is_new = (flags & O_CREAT) && access(path, F_OK) != 0;
    int fd = (int)syscall(SYS_openat, dir, name, flags, mode);
    int error = errno;
    if (fd >= 0 && fd < FILES) {
        free(paths[fd]);
        paths[fd] = is_recorded(path) && (flags & O_TMPFILE) != O_TMPFILE ? strdup(path) : NULL;
        if (paths[fd] && is_new) note("C %s\n", path);
        else if (paths[fd] && (flags & O_TRUNC) && (flags & O_ACCMODE) != O_RDONLY) note("T %s 0\n", path);
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return fd;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); }
int open(const char *name, int flags, ...) { MODE(flags) return open_recorded(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE(flags) return open_recorded(AT_FDCWD, name, flags, mode); }
int openat(int dir, const char *name, int flags, ...) { MODE(flags) return open_recorded(dir, name, flags, mode); }
int openat64(int dir, const char *name, int flags, ...) { MODE(flags) return open_recorded(dir, name, flags, mode); }

int close(int fd) {
    pthread_mutex_lock(&lock);
    if (fd >= 0 && fd < FILES && paths[fd]) { free(paths[fd]); paths[fd] = NULL; }
    int done = (int)syscall(SYS_close, fd), error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

static ssize_t write_recorded(int fd, const void *bytes, size_t length, off_t at) {
    if (!path_of(fd)) return at < 0 ? syscall(SYS_write, fd, bytes, length) : syscall(SYS_pwrite64, fd, bytes, length, at);
    pthread_mutex_lock(&lock);
    off_t from = at;
    if (at < 0) {
        struct stat about;
        int appends = fcntl(fd, F_GETFL) & O_APPEND;
        from = appends && !fstat(fd, &about) ? about.st_size : lseek(fd, 0, SEEK_CUR);
    }
    ssize_t done = at < 0 ? syscall(SYS_write, fd, bytes, length) : syscall(SYS_pwrite64, fd, bytes, length, at);
    int error = errno;
    if (done > 0) {
        note("W %s %lld %lld\n", path_of(fd), (long long)from, (long long)done);
        put(bytes, (size_t)done);
        put("\n", 1);
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}
ssize_t write(int fd, const void *bytes, size_t length) { return write_recorded(fd, bytes, length, -1); }
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) { return write_recorded(fd, bytes, length, at); }
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) { return write_recorded(fd, bytes, length, at); }
ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (!path_of(fd)) return syscall(SYS_writev, fd, parts, count);
    for (int n = 0; n < count; n++)
        if (parts[n].iov_len) return write(fd, parts[n].iov_base, parts[n].iov_len);
    return 0;
}

// Callers copy by reading and writing instead.
ssize_t copy_file_range(int a, off64_t *b, int c, off64_t *d, size_t e, unsigned f) { (void)a, (void)b, (void)c, (void)d, (void)e, (void)f; errno = ENOSYS; return -1; }
ssize_t sendfile(int to, int from, off_t *at, size_t length) { if (path_of(to)) { errno = EINVAL; return -1; } return syscall(SYS_sendfile, to, from, at, length); }
ssize_t sendfile64(int to, int from, off64_t *at, size_t length) { return sendfile(to, from, (off_t *)at, length); }

static int truncate_recorded(int fd, off_t size) {
    pthread_mutex_lock(&lock);
    int done = (int)syscall(SYS_ftruncate, fd, size), error = errno;
    if (!done && path_of(fd)) note("T %s %lld\n", path_of(fd), (long long)size);
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}
int ftruncate(int fd, off_t size) { return truncate_recorded(fd, size); }
int ftruncate64(int fd, off64_t size) { return truncate_recorded(fd, size); }

static int sync_recorded(int fd, long number) {
    pthread_mutex_lock(&lock);
    int done = (int)syscall(number, fd), error = errno;
    if (!done && path_of(fd)) note("S %s\n", path_of(fd));
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}
int fsync(int fd) { return sync_recorded(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_recorded(fd, SYS_fdatasync); }

static int rename_recorded(int a, const char *from, int b, const char *to, unsigned flags) {
    char old[PATH_MAX], new[PATH_MAX];
    pthread_mutex_lock(&lock);
    absolute(a, from, old), absolute(b, to, new);
    int done = (int)syscall(SYS_renameat2, a, from, b, to, flags), error = errno;
    if (!done && is_recorded(old)) {
        note("R %s\t%s\n", old, new);
        for (int fd = 0; fd < FILES; fd++)
            if (paths[fd] && !strcmp(paths[fd], old)) { free(paths[fd]); paths[fd] = strdup(new); }
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}
int rename(const char *from, const char *to) { return rename_recorded(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int a, const char *from, int b, const char *to) { return rename_recorded(a, from, b, to, 0); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) { return rename_recorded(a, from, b, to, flags); }

static int link_recorded(int a, const char *from, int b, const char *to, int flags) {
    char old[PATH_MAX], new[PATH_MAX];
    pthread_mutex_lock(&lock);
    absolute(a, from, old), absolute(b, to, new);
    int done = (int)syscall(SYS_linkat, a, from, b, to, flags), error = errno;
    if (!done && is_recorded(old)) note("L %s\t%s\n", old, new);
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}
int link(const char *from, const char *to) { return link_recorded(AT_FDCWD, from, AT_FDCWD, to, 0); }
int linkat(int a, const char *from, int b, const char *to, int flags) { return link_recorded(a, from, b, to, flags); }

static int remove_recorded(int dir, const char *name, int flags) {
    char path[PATH_MAX];
    pthread_mutex_lock(&lock);
    absolute(dir, name, path);
    int done = (int)syscall(SYS_unlinkat, dir, name, flags), error = errno;
    if (!done && is_recorded(path)) note("U %s\n", path);
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}
int unlink(const char *name) { return remove_recorded(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return remove_recorded(AT_FDCWD, name, AT_REMOVEDIR); }
int unlinkat(int dir, const char *name, int flags) { return remove_recorded(dir, name, flags); }

static int mkdir_recorded(int dir, const char *name, mode_t mode) {
    char path[PATH_MAX];
    pthread_mutex_lock(&lock);
    absolute(dir, name, path);
    int done = (int)syscall(SYS_mkdirat, dir, name, mode), error = errno;
    if (!done && is_recorded(path)) note("M %s\n", path);
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}
int mkdir(const char *name, mode_t mode) { return mkdir_recorded(AT_FDCWD, name, mode); }
int mkdirat(int dir, const char *name, mode_t mode) { return mkdir_recorded(dir, name, mode); }
