/* LD_PRELOAD: makes single system calls of a program fail, by a table that the test maps as well.
 * failing_calls.py has the same layout and the same order of calls.
 *
 * FAIRLEAD_FAULTS   the file with the table
 *
 * A failure is one of the manual page: nothing was done, and errno has the reason. The exceptions
 * are close(2), which closes nevertheless, and an interrupted connect(2), which continues.
 *
 * A rule matches a call by its name and by the kind of its descriptor, because the same call has
 * other errors on an eventfd than on a socket. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define RULES_MAX 64
#define CALLS 34
#define OBJECTS 5

enum call {
  CALL_ACCEPT4,
  CALL_BIND,
  CALL_CLOSE,
  CALL_CONNECT,
  CALL_EPOLL_CREATE1,
  CALL_EPOLL_CTL,
  CALL_EPOLL_WAIT,
  CALL_EVENTFD,
  CALL_FALLOCATE,
  CALL_FCNTL,
  CALL_FSTAT,
  CALL_FTRUNCATE,
  CALL_GETPEERNAME,
  CALL_GETRANDOM,
  CALL_GETSOCKNAME,
  CALL_GETSOCKOPT,
  CALL_LISTEN,
  CALL_MMAP,
  CALL_MUNMAP,
  CALL_OPEN,
  CALL_PIPE2,
  CALL_READ,
  CALL_READV,
  CALL_RECV,
  CALL_RECVMSG,
  CALL_SEND,
  CALL_SENDMSG,
  CALL_SETSOCKOPT,
  CALL_SHUTDOWN,
  CALL_SOCKET,
  CALL_SPLICE,
  CALL_TIMERFD_CREATE,
  CALL_WRITE,
  CALL_WRITEV
};
_Static_assert(CALL_WRITEV + 1 == CALLS, "the number of calls");

enum object { OBJECT_ANY, OBJECT_TCP, OBJECT_UNIX, OBJECT_PIPE, OBJECT_OTHER };

struct rule {
  int32_t call;
  int32_t object;
  int32_t error;
  int32_t countdown; /* 0: never; 1: the next such call fails, then 0 */
  int32_t fired;
};

struct table {
  struct rule rules[RULES_MAX];
  uint32_t seen[CALLS][OBJECTS]; /* calls since the start of the program, by what they were for */
};

static struct table* table;

__attribute__((constructor)) static void map_table(void) {
  const char* path = getenv("FAIRLEAD_FAULTS");
  if (path == NULL) return;
  /* By number, so that these calls never fail. */
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) abort();
  void* memory = (void*)syscall(SYS_mmap, NULL, sizeof(struct table), PROT_READ | PROT_WRITE,
                                MAP_SHARED, fd, (off_t)0);
  if (memory == MAP_FAILED) abort();
  syscall(SYS_close, fd);
  table = memory;
}

static enum object object_of(int fd) {
  struct stat status;
  if (fd < 0 || syscall(SYS_fstat, fd, &status) != 0) return OBJECT_OTHER;
  if (S_ISFIFO(status.st_mode)) return OBJECT_PIPE;
  if (!S_ISSOCK(status.st_mode)) return OBJECT_OTHER;
  int domain = 0;
  socklen_t length = sizeof domain;
  syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &domain, &length);
  return domain == AF_UNIX ? OBJECT_UNIX : OBJECT_TCP;
}

/* The errno with which this call fails, or 0. */
static int error_of(enum call call, int fd) {
  if (table == NULL) return 0;
  const int saved = errno;
  const enum object object = object_of(fd);
  int error = 0;
  __atomic_add_fetch(&table->seen[call][OBJECT_ANY], 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&table->seen[call][object], 1, __ATOMIC_RELAXED);
  for (struct rule* rule = table->rules; rule < table->rules + RULES_MAX && error == 0; ++rule) {
    int32_t left = __atomic_load_n(&rule->countdown, __ATOMIC_ACQUIRE);
    if (left <= 0 || rule->call != (int32_t)call) continue;
    if (rule->object != OBJECT_ANY && rule->object != (int32_t)object) continue;
    while (left > 0 && !__atomic_compare_exchange_n(&rule->countdown, &left, left - 1, 0,
                                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
    if (left != 1) continue;
    error = rule->error;
    __atomic_add_fetch(&rule->fired, 1, __ATOMIC_ACQ_REL);
  }
  errno = saved;
  return error;
}

/* The next definition of a function. The cast by way of a union: ISO C knows no conversion from an
 * object to a function. */
#define NEXT(name)                                                  \
  ({                                                                \
    static union {                                                  \
      void* object;                                                 \
      __typeof__(&name) function;                                   \
    } next;                                                         \
    if (next.object == NULL) next.object = dlsym(RTLD_NEXT, #name); \
    next.function;                                                  \
  })

#define FAIL_IF_DUE(call, fd, failed)      \
  do {                                     \
    const int error_ = error_of(call, fd); \
    if (error_ != 0) {                     \
      errno = error_;                      \
      return failed;                       \
    }                                      \
  } while (0)

#define DEFINE(result, name, call, fd, parameters, arguments) \
  EXPORT result name parameters {                             \
    FAIL_IF_DUE(call, fd, (result)-1);                        \
    return NEXT(name) arguments;                              \
  }

DEFINE(int, accept4, CALL_ACCEPT4, fd, (int fd, struct sockaddr* a, socklen_t* l, int flags),
       (fd, a, l, flags))
DEFINE(int, bind, CALL_BIND, fd, (int fd, const struct sockaddr* a, socklen_t l), (fd, a, l))
DEFINE(int, epoll_create1, CALL_EPOLL_CREATE1, -1, (int flags), (flags))
DEFINE(int, epoll_ctl, CALL_EPOLL_CTL, fd, (int epoll, int op, int fd, struct epoll_event* e),
       (epoll, op, fd, e))
DEFINE(int, epoll_wait, CALL_EPOLL_WAIT, -1, (int epoll, struct epoll_event* e, int n, int t),
       (epoll, e, n, t))
DEFINE(int, eventfd, CALL_EVENTFD, -1, (unsigned count, int flags), (count, flags))
DEFINE(int, fallocate, CALL_FALLOCATE, fd, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n))
DEFINE(int, fstat, CALL_FSTAT, fd, (int fd, struct stat* status), (fd, status))
DEFINE(int, ftruncate, CALL_FTRUNCATE, fd, (int fd, off_t n), (fd, n))
DEFINE(int, getpeername, CALL_GETPEERNAME, fd, (int fd, struct sockaddr* a, socklen_t* l),
       (fd, a, l))
DEFINE(ssize_t, getrandom, CALL_GETRANDOM, -1, (void* p, size_t n, unsigned flags), (p, n, flags))
DEFINE(int, getsockname, CALL_GETSOCKNAME, fd, (int fd, struct sockaddr* a, socklen_t* l),
       (fd, a, l))
DEFINE(int, getsockopt, CALL_GETSOCKOPT, fd, (int fd, int level, int name, void* p, socklen_t* l),
       (fd, level, name, p, l))
DEFINE(int, listen, CALL_LISTEN, fd, (int fd, int n), (fd, n))
DEFINE(int, munmap, CALL_MUNMAP, -1, (void* p, size_t n), (p, n))
DEFINE(int, pipe2, CALL_PIPE2, -1, (int fds[2], int flags), (fds, flags))
DEFINE(ssize_t, read, CALL_READ, fd, (int fd, void* p, size_t n), (fd, p, n))
DEFINE(ssize_t, readv, CALL_READV, fd, (int fd, const struct iovec* v, int n), (fd, v, n))
DEFINE(ssize_t, recv, CALL_RECV, fd, (int fd, void* p, size_t n, int flags), (fd, p, n, flags))
DEFINE(ssize_t, recvmsg, CALL_RECVMSG, fd, (int fd, struct msghdr* m, int flags), (fd, m, flags))
DEFINE(ssize_t, send, CALL_SEND, fd, (int fd, const void* p, size_t n, int flags),
       (fd, p, n, flags))
DEFINE(ssize_t, sendmsg, CALL_SENDMSG, fd, (int fd, const struct msghdr* m, int flags),
       (fd, m, flags))
DEFINE(int, setsockopt, CALL_SETSOCKOPT, fd,
       (int fd, int level, int name, const void* p, socklen_t l), (fd, level, name, p, l))
DEFINE(int, shutdown, CALL_SHUTDOWN, fd, (int fd, int how), (fd, how))
DEFINE(int, socket, CALL_SOCKET, -1, (int domain, int type, int protocol), (domain, type, protocol))
DEFINE(ssize_t, splice, CALL_SPLICE, in,
       (int in, off64_t* at, int out, off64_t* to, size_t n, unsigned flags),
       (in, at, out, to, n, flags))
DEFINE(int, timerfd_create, CALL_TIMERFD_CREATE, -1, (clockid_t clock, int flags), (clock, flags))
DEFINE(ssize_t, write, CALL_WRITE, fd, (int fd, const void* p, size_t n), (fd, p, n))
DEFINE(ssize_t, writev, CALL_WRITEV, fd, (int fd, const struct iovec* v, int n), (fd, v, n))

EXPORT int close(int fd) {
  const int error = error_of(CALL_CLOSE, fd);
  const int result = NEXT(close)(fd);
  if (error == 0) return result;
  errno = error;
  return -1;
}

EXPORT int connect(int fd, const struct sockaddr* a, socklen_t l) {
  const int error = error_of(CALL_CONNECT, fd);
  if (error != 0 && error != EINTR) {
    errno = error;
    return -1;
  }
  const int result = NEXT(connect)(fd, a, l);
  if (error == EINTR && result != 0 && errno == EINPROGRESS) errno = EINTR;
  return result;
}

EXPORT int fcntl(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  void* argument = va_arg(list, void*);
  va_end(list);
  FAIL_IF_DUE(CALL_FCNTL, fd, -1);
  return NEXT(fcntl)(fd, command, argument);
}

/* Only mappings of descriptors. Anonymous ones belong to allocators, which have their own limits.
 */
EXPORT void* mmap(void* p, size_t n, int protection, int flags, int fd, off_t at) {
  if (fd >= 0) FAIL_IF_DUE(CALL_MMAP, fd, MAP_FAILED);
  return (void*)syscall(SYS_mmap, p, n, protection, flags, fd, at);
}

EXPORT int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  FAIL_IF_DUE(CALL_OPEN, -1, -1);
  return NEXT(open)(path, flags, mode);
}
