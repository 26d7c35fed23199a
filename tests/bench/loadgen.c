// A small TCP load generator and its server, for bench.py.
//
//   loadgen server <ip> <port>
//   loadgen bulk   <ip> <port> <streams> <seconds> <send bytes>    one way, byte counts verified
//   loadgen pp     <ip> <port> <bytes> <seconds> [gap us]          ping-pong on one connection
//   loadgen crr    <ip> <port> <workers> <seconds> [bytes]         whole short connections
//   loadgen talk   <ip> <port> <rounds> <seconds> [bytes]          one connection after the other,
//   with
//                                                                  so many round trips each
//   loadgen idle   <ip> <port> <connections> <seconds>             open, echo, hold, echo again;
//                                                                  SIGUSR1 ends the holding
//
// It is long because it has all the loads: each is small, and the benchmarks compile one program.
//
// Every client prints JSON, one object a line, and exits with 0 only if all returned bytes were
// correct. Every load is bounded in time; a watchdog ends a process that hangs.
#define _GNU_SOURCE
#include "loadgen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
  kStreamsMax = 1024,
  kWorkersMax = 256,
  kDialFailuresMax = 200,
  kRoundTripsMax = 8 << 20,
  kConnectionsMax = 1 << 18,  // of one worker, whose times are kept
};

static struct sockaddr_in target;
static double seconds;
static size_t message_bytes;

void die(const char* what) {
  perror(what);
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct sockaddr_in address_of(const char* ip, const char* port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
  if (inet_pton(AF_INET, ip, &address.sin_addr) != 1) {
    fprintf(stderr, "not an IPv4 address: %s\n", ip);
    exit(2);
  }
  return address;
}

void set_no_delay(int fd) {
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static int dial(void) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (connect(fd, (struct sockaddr*)&target, sizeof target) < 0) {
    int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  set_no_delay(fd);
  return fd;
}

bool send_all(int fd, const void* bytes, size_t count) {
  const char* at = bytes;
  while (count > 0) {
    ssize_t sent = send(fd, at, count, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    count -= (size_t)sent;
  }
  return true;
}

static bool receive_all(int fd, void* bytes, size_t count) {
  char* at = bytes;
  while (count > 0) {
    ssize_t received = recv(fd, at, count, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return false;
    at += received;
    count -= (size_t)received;
  }
  return true;
}

void* must_allocate(size_t count, size_t size) {
  void* memory = calloc(count > 0 ? count : 1, size);
  if (memory == NULL) die("calloc");
  return memory;
}

// --------------------------------------------------------------------------------------- bulk

struct stream {
  uint64_t sent, counted;  // by this process, by the server
  int fd;
  bool failed;
};
static struct stream streams[kStreamsMax];
static pthread_barrier_t all_connected;

// Up to kBulkThreadsMax streams have a thread each; more streams share them. A thread for each
// stream would take the processor from the proxies, and measure the scheduler.
enum { kBulkThreadsMax = 8 };
struct bundle {
  int epoll;  // reports which of several streams are writable
  struct stream* streams[kStreamsMax / kBulkThreadsMax + 1];
  int count;
};
static struct bundle bundles[kBulkThreadsMax];

static void begin(struct stream* stream) {
  struct hello hello = {kMagic, kModeSink, 0};
  stream->fd = dial();
  if (stream->fd < 0) perror("connect");
  stream->failed = stream->fd < 0 || !send_all(stream->fd, &hello, sizeof hello);
}

static void send_some(struct stream* stream, const char* bytes, int flags) {
  ssize_t sent = send(stream->fd, bytes, message_bytes, MSG_NOSIGNAL | flags);
  if (sent >= 0) {
    stream->sent += (uint64_t)sent;
  } else if (errno != EINTR && errno != EAGAIN) {
    perror("send");
    stream->failed = true;
  }
}

static void finish(struct stream* stream) {
  if (stream->fd < 0) return;
  if (!receive_all(stream->fd, &stream->counted, sizeof stream->counted)) {
    fprintf(stderr, "no final count on stream %d\n", (int)(stream - streams));
    stream->failed = true;
  }
  close(stream->fd);
}

static void send_to_ready(struct bundle* bundle, const char* bytes) {
  struct epoll_event ready[64];
  int count = epoll_wait(bundle->epoll, ready, 64, 100);
  for (int i = 0; i < count; i++) {
    struct stream* stream = ready[i].data.ptr;
    send_some(stream, bytes, MSG_DONTWAIT);
    if (stream->failed) epoll_ctl(bundle->epoll, EPOLL_CTL_DEL, stream->fd, NULL);
  }
}

static void watch_all(struct bundle* bundle) {
  bundle->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (bundle->epoll < 0) die("epoll_create1");
  for (int i = 0; i < bundle->count; i++) {
    struct stream* stream = bundle->streams[i];
    struct epoll_event event = {.events = EPOLLOUT, .data.ptr = stream};
    if (!stream->failed && epoll_ctl(bundle->epoll, EPOLL_CTL_ADD, stream->fd, &event) != 0)
      die("epoll_ctl");
  }
}

static void* bulk_bundle(void* argument) {
  struct bundle* bundle = argument;
  char* bytes = must_allocate(message_bytes, 1);
  memset(bytes, 'x' + (int)(bundle - bundles), message_bytes);
  for (int i = 0; i < bundle->count; i++) begin(bundle->streams[i]);
  if (bundle->count > 1) watch_all(bundle);
  pthread_barrier_wait(&all_connected);
  for (double end = now() + seconds; now() < end;) {
    if (bundle->count > 1)
      send_to_ready(bundle, bytes);
    else if (!bundle->streams[0]->failed)
      send_some(bundle->streams[0], bytes, 0);
    else
      break;
  }
  for (int i = 0; i < bundle->count; i++)
    if (bundle->streams[i]->fd >= 0) shutdown(bundle->streams[i]->fd, SHUT_WR);
  for (int i = 0; i < bundle->count; i++) finish(bundle->streams[i]);
  free(bytes);
  return NULL;
}

static int bulk(int count) {
  if (count < 1 || count > kStreamsMax) return 2;
  int thread_count = count < kBulkThreadsMax ? count : kBulkThreadsMax;
  for (int i = 0; i < count; i++) {
    struct bundle* bundle = &bundles[i % thread_count];
    bundle->streams[bundle->count++] = &streams[i];
  }
  pthread_t threads[kBulkThreadsMax];
  pthread_barrier_init(&all_connected, NULL, (unsigned)thread_count + 1);
  for (int i = 0; i < thread_count; i++)
    pthread_create(&threads[i], NULL, bulk_bundle, &bundles[i]);
  pthread_barrier_wait(&all_connected);
  double start = now();
  for (int i = 0; i < thread_count; i++) pthread_join(threads[i], NULL);
  double elapsed = now() - start;
  uint64_t sent = 0;
  bool right = true;
  for (int i = 0; i < count; i++) {
    sent += streams[i].sent;
    right &= !streams[i].failed && streams[i].sent == streams[i].counted;
  }
  printf("{\"bytes\":%" PRIu64 ",\"ok\":%s,\"seconds\":%.4f,\"gbytes_per_s\":%.4f}\n", sent,
         right ? "true" : "false", elapsed, (double)sent / elapsed / 1e9);
  return right ? 0 : 1;
}

// ---------------------------------------------------------------------------------- ping-pong

static int by_value(const void* a, const void* b) {
  float left = *(const float*)a, right = *(const float*)b;
  return (left > right) - (left < right);
}

static int ping_pong(int gap_us) {
  struct hello hello = {kMagic, kModeEcho, message_bytes};
  char* sent = must_allocate(message_bytes, 1);
  char* received = must_allocate(message_bytes, 1);
  float* times_us = must_allocate(kRoundTripsMax, sizeof *times_us);
  for (size_t i = 0; i < message_bytes; i++) sent[i] = (char)(i * 31);
  int fd = dial();
  if (fd < 0) die("connect");
  if (!send_all(fd, &hello, sizeof hello)) die("send");
  for (double warm = now() + 0.2; now() < warm;)
    if (!send_all(fd, sent, message_bytes) || !receive_all(fd, received, message_bytes))
      die("warming up");
  size_t count = 0;
  double start = now(), end = start + seconds;
  while (count < kRoundTripsMax) {
    double before = now();
    if (before >= end) break;
    memcpy(sent, &count, message_bytes < sizeof count ? message_bytes : sizeof count);
    if (!send_all(fd, sent, message_bytes) || !receive_all(fd, received, message_bytes))
      die("ping-pong");
    times_us[count++] = (float)((now() - before) * 1e6);
    if (memcmp(sent, received, message_bytes) != 0) {
      fprintf(stderr, "the echo differs\n");
      return 1;
    }
    if (gap_us > 0) usleep((useconds_t)gap_us);
  }
  double elapsed = now() - start;
  qsort(times_us, count, sizeof *times_us, by_value);
  printf("{\"n\":%zu,\"rps\":%.1f,\"p50_us\":%.2f,\"p99_us\":%.2f,\"p999_us\":%.2f}\n", count,
         (double)count / elapsed, times_us[count / 2], times_us[count * 99 / 100],
         times_us[count * 999 / 1000]);
  return 0;
}

// ----------------------------------------------------------- connect, request, response, close

struct worker {
  uint64_t done, failed;
  double worst;  // seconds
  // Of each connection: from connect to the first byte of the response, and to the last.
  size_t count;
  float *first_us, *whole_us;
};
static struct worker workers[kWorkersMax];

static void* connect_again_and_again(void* argument) {
  struct worker* worker = argument;
  struct hello hello = {kMagic, kModeEcho, message_bytes};
  size_t request_bytes = sizeof hello + message_bytes;
  char* request = must_allocate(request_bytes, 1);
  char* response = must_allocate(message_bytes, 1);
  memcpy(request, &hello, sizeof hello);
  worker->first_us = must_allocate(kConnectionsMax, sizeof(float));
  worker->whole_us = must_allocate(kConnectionsMax, sizeof(float));
  for (double end = now() + seconds; now() < end;) {
    double before = now();
    int fd = dial();
    if (fd < 0) {
      worker->failed++;
      usleep(1000);
      continue;
    }
    ssize_t got = -1;
    double first = 0;
    if (send_all(fd, request, request_bytes)) {
      got = recv(fd, response, message_bytes, 0);
      first = now();
    }
    if (got > 0 && receive_all(fd, response + got, message_bytes - (size_t)got)) {
      worker->done++;
      if (worker->count < kConnectionsMax) {
        worker->first_us[worker->count] = (float)((first - before) * 1e6);
        worker->whole_us[worker->count++] = (float)((now() - before) * 1e6);
      }
    } else {
      worker->failed++;
    }
    close(fd);
    double took = now() - before;
    if (took > worker->worst) worker->worst = took;
  }
  free(request);
  free(response);
  return NULL;
}

static void print_quantiles(const char* name, float* times_us, size_t count) {
  qsort(times_us, count, sizeof *times_us, by_value);
  printf(",\"%s_p50_us\":%.2f,\"%s_p99_us\":%.2f", name, count ? times_us[count / 2] : 0.0, name,
         count ? times_us[count * 99 / 100] : 0.0);
}

static int short_connections(int count) {
  if (count < 1 || count > kWorkersMax) return 2;
  pthread_t threads[kWorkersMax];
  double start = now(), worst = 0;
  for (int i = 0; i < count; i++)
    pthread_create(&threads[i], NULL, connect_again_and_again, &workers[i]);
  uint64_t done = 0, failed = 0;
  for (int i = 0; i < count; i++) {
    pthread_join(threads[i], NULL);
    done += workers[i].done;
    failed += workers[i].failed;
    if (workers[i].worst > worst) worst = workers[i].worst;
  }
  printf("{\"n\":%" PRIu64 ",\"fail\":%" PRIu64 ",\"cps\":%.1f,\"worst_ms\":%.2f", done, failed,
         (double)done / (now() - start), worst * 1e3);
  size_t timed = 0;
  for (int i = 0; i < count; i++) timed += workers[i].count;
  float* first_us = must_allocate(timed + 1, sizeof *first_us);
  float* whole_us = must_allocate(timed + 1, sizeof *whole_us);
  timed = 0;
  for (int i = 0; i < count; i++) {
    memcpy(first_us + timed, workers[i].first_us, workers[i].count * sizeof *first_us);
    memcpy(whole_us + timed, workers[i].whole_us, workers[i].count * sizeof *whole_us);
    timed += workers[i].count;
  }
  print_quantiles("first", first_us, timed);
  print_quantiles("whole", whole_us, timed);
  printf("}\n");
  return 0;
}

// --------------------------------------------------------------------------------------- talks

// Of each connection the first round trip is left out: it includes what the connection costs.
static int talks(int rounds) {
  if (rounds < 2) return 2;
  struct hello hello = {kMagic, kModeEcho, message_bytes};
  char* bytes = must_allocate(message_bytes, 1);
  float* all_us = must_allocate(kRoundTripsMax, sizeof *all_us);
  float* slowest_us = must_allocate(kConnectionsMax, sizeof *slowest_us);
  size_t trips = 0, connections = 0;
  for (double end = now() + seconds; now() < end && connections < kConnectionsMax;) {
    int fd = dial();
    if (fd < 0) die("connect");
    if (!send_all(fd, &hello, sizeof hello)) die("send");
    double slowest = 0;
    for (int i = 0; i < rounds; i++) {
      double before = now();
      if (!send_all(fd, bytes, message_bytes) || !receive_all(fd, bytes, message_bytes))
        die("talk");
      double took_us = (now() - before) * 1e6;
      if (i == 0) continue;
      if (trips < kRoundTripsMax) all_us[trips++] = (float)took_us;
      if (took_us > slowest) slowest = took_us;
    }
    slowest_us[connections++] = (float)slowest;
    close(fd);
  }
  printf("{\"n\":%zu", connections);
  print_quantiles("trip", all_us, trips);
  print_quantiles("slowest", slowest_us, connections);
  printf("}\n");
  return 0;
}

// --------------------------------------------------------------------------------------- idle

static int idle(int count) {
  enum { kMessage = 64 };
  struct {
    struct hello hello;
    char message[kMessage];
  } request = {.hello = {kMagic, kModeEcho, kMessage}};
  char response[kMessage];
  if (count < 1) return 2;
  int* sockets = must_allocate((size_t)count, sizeof *sockets);
  sigset_t enough;
  sigemptyset(&enough);
  sigaddset(&enough, SIGUSR1);
  sigprocmask(SIG_BLOCK, &enough, NULL);
  for (int i = 0; i < count; i++) sockets[i] = -1;
  struct timeval patience = {5, 0};
  double start = now();
  int opened = 0, failed = 0;
  for (int i = 0; i < count && failed <= kDialFailuresMax; i++) {
    int fd = dial();
    if (fd >= 0) {
      setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      if (send_all(fd, &request, sizeof request) && receive_all(fd, response, kMessage)) {
        sockets[i] = fd;
        opened++;
        continue;
      }
      close(fd);
    }
    failed++;
  }
  printf("{\"open\":%d,\"fail\":%d,\"open_secs\":%.3f}\n", opened, failed, now() - start);
  fflush(stdout);
  const struct timespec hold = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  sigtimedwait(&enough, NULL, &hold);
  int alive = 0;
  for (int i = 0; i < count; i++)
    if (sockets[i] >= 0 && send_all(sockets[i], request.message, kMessage) &&
        receive_all(sockets[i], response, kMessage))
      alive++;
  printf("{\"alive\":%d}\n", alive);
  return 0;
}

// --------------------------------------------------------------------------------------- main

static void raise_descriptor_limit(void) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit();
  if (argc >= 4 && strcmp(argv[1], "server") == 0) serve(argv[2], argv[3]);
  if (argc < 6) {
    fprintf(stderr, "usage: see the head of loadgen.c\n");
    return 2;
  }
  const char* mode = argv[1];
  target = address_of(argv[2], argv[3]);
  seconds = atof(argv[5]);
  alarm((unsigned)(seconds * 3) + 20 + (strcmp(mode, "idle") == 0 ? 120 : 0));
  int count = atoi(argv[4]), last = argc > 6 ? atoi(argv[6]) : 0;
  if (strcmp(mode, "bulk") == 0 && last > 0) {
    message_bytes = (size_t)last;
    return bulk(count);
  }
  if (strcmp(mode, "pp") == 0 && count > 0) {
    message_bytes = (size_t)count;
    return ping_pong(last);
  }
  if (strcmp(mode, "crr") == 0) {
    message_bytes = last > 0 ? (size_t)last : 64;
    return short_connections(count);
  }
  if (strcmp(mode, "talk") == 0) {
    message_bytes = last > 0 ? (size_t)last : 64;
    return talks(count);
  }
  if (strcmp(mode, "idle") == 0) return idle(count);
  fprintf(stderr, "no such mode: %s\n", mode);
  return 2;
}
