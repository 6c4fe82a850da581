/* A library for LD_PRELOAD that makes file and socket calls of a process fail, wait or stop half way, and moves its wall
 * clock. A page of shared memory controls it while the process runs; fault_shim.py writes that page and has its layout.
 *
 * FAULT_SHIM_PAGE names the file of the page. FAULT_SHIM_ROOT is the folder whose files are affected: what the
 * interpreter reads for itself stays whole. The monotonic clocks are not touched.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define RULES 16
#define PATH 192
#define PAGE 8192
#define MAGIC 0x53484d31u

enum call {
  C_OPEN, C_CREATE, C_READ, C_WRITE, C_SYNC, C_TRUNCATE, C_ALLOCATE, C_RENAME, C_LINK, C_UNLINK, C_MKDIR, C_STATVFS,
  C_ACCEPT, C_SOCKET, C_MMAP, C_MSYNC, CALLS
};
enum action { A_FAIL = 1, A_DELAY, A_SHORT, A_TORN, A_KILL_BEFORE, A_KILL_AFTER, A_KILL_TORN };

struct rule {
  uint32_t on;           /* written last; 0: the rule is not looked at */
  uint32_t calls;        /* bits of enum call */
  int32_t action;
  int32_t error;
  int64_t delay_us;
  int64_t skip;          /* calls that match and pass before the first that is hit */
  int64_t left;          /* how many are hit; below 0: all */
  uint32_t per_million;  /* share of the others that are hit */
  uint32_t unused;
  uint64_t seen, hits;
  char path[PATH];       /* pattern of fnmatch, where * also matches a slash; empty: every file below the root */
};

struct page {
  uint32_t magic, active; /* active: number of rules that are on, so that an idle shim costs one comparison */
  int64_t clock_ns;       /* added to the wall clock */
  uint64_t chance;        /* state of the generator that rates draw from */
  uint64_t calls[32];     /* calls below the root, counted while a rule is on */
  uint64_t hits[32];      /* of these, those that a rule hit */
  char space[1024 - 24 - 512];
  struct rule rules[RULES];
};

static struct page *page;
static char root[PATH_MAX];
static size_t root_length;

__attribute__((constructor)) static void begin(void) {
  const char *file = getenv("FAULT_SHIM_PAGE"), *below = getenv("FAULT_SHIM_ROOT");
  if (!file || !below || strlen(below) >= sizeof root) return;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void *found = (void *)syscall(SYS_mmap, NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  syscall(SYS_close, fd);
  if (found == MAP_FAILED || ((struct page *)found)->magic != MAGIC) return;
  strcpy(root, below);
  root_length = strlen(root);
  page = found;
}

/* The next number of a splitmix64 generator that all threads share. */
static uint64_t draw(void) {
  uint64_t z = __atomic_add_fetch(&page->chance, 0x9e3779b97f4a7c15ull, __ATOMIC_RELAXED);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

static int below_root(const char *path) {
  return strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || path[root_length] == 0);
}

static void wait_us(int64_t us) {
  struct timespec left = {us / 1000000, us % 1000000 * 1000};
  while (syscall(SYS_nanosleep, &left, &left) != 0 && errno == EINTR) continue;
}

static void die(void) {
  syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
  for (;;) syscall(SYS_pause);
}

/* The rule that hits this call, or NULL. Rules that delay wait here, and the rules after them are asked, too. */
static struct rule *struck(enum call call, const char *path) {
  if (!page || !__atomic_load_n(&page->active, __ATOMIC_ACQUIRE)) return NULL;
  if (path && !below_root(path)) return NULL;
  __atomic_add_fetch(&page->calls[call], 1, __ATOMIC_RELAXED);
  for (int i = 0; i < RULES; i++) {
    struct rule *rule = &page->rules[i];
    if (!__atomic_load_n(&rule->on, __ATOMIC_ACQUIRE) || !(rule->calls >> call & 1)) continue;
    if (rule->path[0] && path && fnmatch(rule->path, path, 0) != 0) continue;
    int64_t seen = (int64_t)__atomic_add_fetch(&rule->seen, 1, __ATOMIC_RELAXED);
    if (seen <= rule->skip) continue;
    if (rule->per_million < 1000000 && draw() % 1000000 >= rule->per_million) continue;
    if (rule->left >= 0 && __atomic_fetch_sub(&rule->left, 1, __ATOMIC_RELAXED) <= 0) {
      __atomic_store_n(&rule->left, 0, __ATOMIC_RELAXED);
      continue;
    }
    __atomic_add_fetch(&rule->hits, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&page->hits[call], 1, __ATOMIC_RELAXED);
    if (rule->action == A_DELAY) {
      wait_us(rule->delay_us);
      continue;
    }
    if (rule->action == A_KILL_BEFORE) die();
    return rule;
  }
  return NULL;
}

/* Of a call without bytes. */
static int fails(struct rule *rule) {
  if (!rule || rule->action != A_FAIL) return 0;
  errno = rule->error;
  return 1;
}

static long finish(struct rule *rule, long result) {
  if (rule && (rule->action == A_KILL_AFTER || rule->action == A_KILL_TORN)) die();
  return result;
}

/* The file of a descriptor. Only asked for while a rule is on. */
static const char *path_of(int fd, char *room) {
  char link[64];
  if (!page || !__atomic_load_n(&page->active, __ATOMIC_ACQUIRE)) return "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  long length = syscall(SYS_readlinkat, AT_FDCWD, link, room, PATH_MAX - 1);
  room[length < 0 ? 0 : length] = 0;
  return room;
}

/* A path with its folder, which calls such as linkat may give as a descriptor. */
static const char *path_at(int folder, const char *path, char *room) {
  if (!page || !__atomic_load_n(&page->active, __ATOMIC_ACQUIRE) || path[0] == '/' || folder == AT_FDCWD) return path;
  char above[PATH_MAX];
  path_of(folder, above);
  if (snprintf(room, PATH_MAX, "%s/%s", above, path) >= PATH_MAX) return path;
  return room;
}

#define REAL(name)                                      \
  static __typeof__(name) *real;                        \
  if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* -- opening */

static int opened(int folder, const char *path, int flags, mode_t mode) {
  char room[PATH_MAX];
  const char *whole = path_at(folder, path, room);
  int creates = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
  struct rule *rule = struck(creates ? C_CREATE : C_OPEN, whole);
  if (fails(rule)) return -1;
  return (int)finish(rule, syscall(SYS_openat, folder, path, flags, mode));
}

#define MODE(flags)                                                                \
  mode_t mode = 0;                                                                 \
  if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) {                     \
    va_list more;                                                                  \
    va_start(more, flags);                                                         \
    mode = va_arg(more, mode_t);                                                   \
    va_end(more);                                                                  \
  }

int open(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE(flags) return opened(folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE(flags) return opened(folder, path, flags, mode); }

/* -- reading: errors and delays; a read that must not wait finds nothing in memory while reads are slow */

static ssize_t readv_at(int fd, const struct iovec *parts, int count, off_t offset, int flags) {
  char room[PATH_MAX];
  const char *path = path_of(fd, room);
  if ((flags & 8) && path[0] && page && below_root(path)) { /* RWF_NOWAIT */
    for (int i = 0; i < RULES; i++) {
      struct rule *rule = &page->rules[i];
      if (!rule->on || rule->action != A_DELAY || !(rule->calls >> C_READ & 1)) continue;
      if (rule->path[0] && fnmatch(rule->path, path, 0) != 0) continue;
      if (draw() % 1000000 >= rule->per_million) continue;
      errno = EAGAIN;
      return -1;
    }
    return syscall(SYS_preadv2, fd, parts, (long)count, (long)offset, 0L, flags);
  }
  if (path[0] && fails(struck(C_READ, path))) return -1;
  return syscall(SYS_preadv2, fd, parts, (long)count, (long)offset, 0L, flags);
}

ssize_t pread64(int fd, void *data, size_t size, off64_t offset) {
  struct iovec part = {data, size};
  return readv_at(fd, &part, 1, offset, 0);
}
ssize_t pread(int fd, void *data, size_t size, off_t offset) { return pread64(fd, data, size, offset); }
ssize_t preadv64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags) {
  return readv_at(fd, parts, count, offset, flags);
}
ssize_t preadv2(int fd, const struct iovec *parts, int count, off_t offset, int flags) {
  return readv_at(fd, parts, count, offset, flags);
}
ssize_t preadv64(int fd, const struct iovec *parts, int count, off64_t offset) {
  return readv_at(fd, parts, count, offset, 0);
}
ssize_t preadv(int fd, const struct iovec *parts, int count, off_t offset) {
  return readv_at(fd, parts, count, offset, 0);
}

/* -- writing */

static ssize_t written(int fd, const struct iovec *parts, int count, off_t offset, int flags) {
  if (offset < 0) return syscall(SYS_writev, fd, parts, (long)count);
  return syscall(SYS_pwritev2, fd, parts, (long)count, (long)offset, 0L, flags);
}

static ssize_t part_written(int fd, const struct iovec *parts, int count, off_t offset) {
  size_t total = 0;
  for (int i = 0; i < count; i++) total += parts[i].iov_len;
  if (total == 0) return written(fd, parts, count, offset, 0);
  size_t wanted = draw() % total;
  ssize_t done = 0;
  for (int i = 0; i < count && wanted; i++) {
    struct iovec piece = {parts[i].iov_base, parts[i].iov_len < wanted ? parts[i].iov_len : wanted};
    ssize_t now = written(fd, &piece, 1, offset < 0 ? offset : offset + done, 0);
    if (now < 0) return done ? done : now;
    done += now;
    wanted -= (size_t)now;
    if ((size_t)now < piece.iov_len) break;
  }
  return done;
}

/* `offset` below 0: at the place of the descriptor. */
static ssize_t writev_at(int fd, const struct iovec *parts, int count, off_t offset, int flags) {
  char room[PATH_MAX];
  const char *path = path_of(fd, room);
  struct rule *rule = path[0] ? struck(C_WRITE, path) : NULL;
  if (!rule) return written(fd, parts, count, offset, flags);
  switch (rule->action) {
    case A_FAIL:
      errno = rule->error;
      return -1;
    case A_SHORT: {
      ssize_t done = part_written(fd, parts, count, offset);
      return done > 0 ? done : written(fd, parts, count, offset, flags);
    }
    case A_TORN: /* some of the bytes are written, and the call fails all the same */
      part_written(fd, parts, count, offset);
      errno = rule->error;
      return -1;
    case A_KILL_TORN:
      part_written(fd, parts, count, offset);
      die();
  }
  return finish(rule, written(fd, parts, count, offset, flags));
}

ssize_t write(int fd, const void *data, size_t size) {
  struct iovec part = {(void *)data, size};
  return writev_at(fd, &part, 1, -1, 0);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
  struct iovec part = {(void *)data, size};
  return writev_at(fd, &part, 1, offset, 0);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return pwrite64(fd, data, size, offset); }
ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags) {
  return writev_at(fd, parts, count, offset, flags);
}
ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags) {
  return writev_at(fd, parts, count, offset, flags);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) {
  return writev_at(fd, parts, count, offset, 0);
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
  return writev_at(fd, parts, count, offset, 0);
}

/* -- syncs, sizes, blocks */

static int synced(int fd, long number) {
  char room[PATH_MAX];
  const char *path = path_of(fd, room);
  struct rule *rule = path[0] ? struck(C_SYNC, path) : NULL;
  if (fails(rule)) return -1;
  return (int)finish(rule, syscall(number, fd));
}
int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }
int syncfs(int fd) { return synced(fd, SYS_syncfs); }

int ftruncate64(int fd, off64_t size) {
  char room[PATH_MAX];
  const char *path = path_of(fd, room);
  struct rule *rule = path[0] ? struck(C_TRUNCATE, path) : NULL;
  if (fails(rule)) return -1;
  return (int)finish(rule, syscall(SYS_ftruncate, fd, size));
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int fallocate64(int fd, int mode, off64_t offset, off64_t size) {
  char room[PATH_MAX];
  const char *path = path_of(fd, room);
  struct rule *rule = path[0] ? struck(C_ALLOCATE, path) : NULL;
  if (fails(rule)) return -1;
  return (int)finish(rule, syscall(SYS_fallocate, fd, mode, offset, size));
}
int fallocate(int fd, int mode, off_t offset, off_t size) { return fallocate64(fd, mode, offset, size); }
int posix_fallocate64(int fd, off64_t offset, off64_t size) {
  REAL(posix_fallocate64);
  char room[PATH_MAX];
  const char *path = path_of(fd, room);
  struct rule *rule = path[0] ? struck(C_ALLOCATE, path) : NULL;
  if (rule && rule->action == A_FAIL) return rule->error;
  return (int)finish(rule, real(fd, offset, size));
}
int posix_fallocate(int fd, off_t offset, off_t size) { return posix_fallocate64(fd, offset, size); }

/* A full file system: the call that asks for its room says that there is none. */
int statvfs64(const char *path, struct statvfs64 *found) {
  REAL(statvfs64);
  int result = real(path, found);
  struct rule *rule = struck(C_STATVFS, path);
  if (result == 0 && rule && rule->action == A_FAIL) found->f_bfree = found->f_bavail = 0;
  return result;
}
int statvfs(const char *path, struct statvfs *found) {
  REAL(statvfs);
  int result = real(path, found);
  struct rule *rule = struck(C_STATVFS, path);
  if (result == 0 && rule && rule->action == A_FAIL) found->f_bfree = found->f_bavail = 0;
  return result;
}

/* -- names. A call that moves is matched by where it moves to. */

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
  char room[PATH_MAX];
  struct rule *rule = struck(C_RENAME, path_at(to_folder, to, room));
  if (fails(rule)) return -1;
  return (int)finish(rule, syscall(SYS_renameat2, from_folder, from, to_folder, to, 0));
}
int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }
int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
  char room[PATH_MAX];
  struct rule *rule = struck(C_LINK, path_at(to_folder, to, room));
  if (fails(rule)) return -1;
  return (int)finish(rule, syscall(SYS_linkat, from_folder, from, to_folder, to, flags));
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }
int unlinkat(int folder, const char *path, int flags) {
  char room[PATH_MAX];
  struct rule *rule = struck(C_UNLINK, path_at(folder, path, room));
  if (fails(rule)) return -1;
  return (int)finish(rule, syscall(SYS_unlinkat, folder, path, flags));
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int mkdirat(int folder, const char *path, mode_t mode) {
  char room[PATH_MAX];
  struct rule *rule = struck(C_MKDIR, path_at(folder, path, room));
  if (fails(rule)) return -1;
  return (int)finish(rule, syscall(SYS_mkdirat, folder, path, mode));
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

/* -- memory of files */

void *mmap64(void *at, size_t size, int access, int flags, int fd, off64_t offset) {
  char room[PATH_MAX];
  const char *path = fd >= 0 && !(flags & MAP_ANONYMOUS) ? path_of(fd, room) : "";
  if (path[0] && fails(struck(C_MMAP, path))) return MAP_FAILED;
  return (void *)syscall(SYS_mmap, at, size, access, flags, fd, offset);
}
void *mmap(void *at, size_t size, int access, int flags, int fd, off_t offset) {
  return mmap64(at, size, access, flags, fd, offset);
}
int msync(void *at, size_t size, int flags) {
  if (fails(struck(C_MSYNC, NULL))) return -1;
  return (int)syscall(SYS_msync, at, size, flags);
}

/* -- sockets: no path, so that a rule of theirs says nothing about files */

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags) {
  if (fails(struck(C_ACCEPT, NULL))) return -1;
  REAL(accept4);
  return real(fd, address, length, flags);
}
int accept(int fd, struct sockaddr *address, socklen_t *length) {
  if (fails(struck(C_ACCEPT, NULL))) return -1;
  REAL(accept);
  return real(fd, address, length);
}
int socket(int family, int kind, int protocol) {
  if (fails(struck(C_SOCKET, NULL))) return -1;
  return (int)syscall(SYS_socket, family, kind, protocol);
}

/* -- the wall clock */

int clock_gettime(clockid_t clock, struct timespec *now) {
  REAL(clock_gettime);
  int result = real ? real(clock, now) : (int)syscall(SYS_clock_gettime, clock, now);
  int64_t ahead = page ? __atomic_load_n(&page->clock_ns, __ATOMIC_RELAXED) : 0;
  if (result == 0 && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    int64_t whole = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + ahead;
    now->tv_sec = whole / 1000000000;
    now->tv_nsec = whole % 1000000000;
  }
  return result;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec found;
  int result = clock_gettime(CLOCK_REALTIME, &found);
  now->tv_sec = found.tv_sec;
  now->tv_usec = found.tv_nsec / 1000;
  return result;
}
time_t time(time_t *to) {
  struct timespec found;
  clock_gettime(CLOCK_REALTIME, &found);
  if (to) *to = found.tv_sec;
  return found.tv_sec;
}
