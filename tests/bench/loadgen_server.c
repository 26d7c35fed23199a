// The server of the load generator: one loop for echoes, and further ones for bulk connections.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loadgen.h"

enum {
  kMessageBytesMax = 64 << 20,
  kSinkBufferBytes = 256 << 10,
  kSinkThreads = 8,
};

struct connection {
  int fd;
  size_t hello_bytes;  // of `hello`, received
  struct hello hello;
  char* message;
  size_t received;  // of `message`, or in all by a sink
};

static void close_connection(struct connection* c) {
  close(c->fd);
  free(c->message);
  free(c);
}

// Up to kSinkThreads bulk connections have a thread each, so that the receiver is not the
// bottleneck. More connections share threads and buffers: a thread and a buffer for each of a
// thousand would measure the scheduler and the caches.
static int sink_epolls[kSinkThreads];

static void count_received(struct connection* c, char* buffer) {
  ssize_t received = recv(c->fd, buffer, kSinkBufferBytes, 0);
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (received > 0) {
    c->received += (size_t)received;
    return;
  }
  uint64_t total = c->received;
  send_all(c->fd, &total, sizeof total);
  close_connection(c);
}

static void* sink(void* argument) {
  int epoll = *(const int*)argument;
  char* buffer = must_allocate(kSinkBufferBytes, 1);
  struct epoll_event events[64];
  for (;;) {
    int count = epoll_wait(epoll, events, 64, -1);
    for (int i = 0; i < count; i++) count_received(events[i].data.ptr, buffer);
  }
  return NULL;
}

static void start_sinks(void) {
  for (int i = 0; i < kSinkThreads; i++) {
    pthread_t thread;
    sink_epolls[i] = epoll_create1(EPOLL_CLOEXEC);
    if (sink_epolls[i] < 0 || pthread_create(&thread, NULL, sink, &sink_epolls[i]) != 0)
      die("sink");
    pthread_detach(thread);
  }
}

static void hand_to_sink(struct connection* c) {
  static unsigned next;
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
  if (epoll_ctl(sink_epolls[next++ % kSinkThreads], EPOLL_CTL_ADD, c->fd, &event) != 0)
    close_connection(c);
}

static void accept_all(int listener, int epoll) {
  int fd;
  while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
    set_no_delay(fd);
    struct connection* c = must_allocate(1, sizeof *c);
    c->fd = fd;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) close_connection(c);
  }
}

// False when the connection is over, or no longer this loop's.
static bool greet(struct connection* c, int epoll) {
  ssize_t received =
      recv(c->fd, (char*)&c->hello + c->hello_bytes, sizeof c->hello - c->hello_bytes, 0);
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (received <= 0) return close_connection(c), false;
  c->hello_bytes += (size_t)received;
  if (c->hello_bytes < sizeof c->hello) return true;
  if (c->hello.magic != kMagic || c->hello.size > kMessageBytesMax)
    return close_connection(c), false;
  if (c->hello.mode == kModeSink) {
    epoll_ctl(epoll, EPOLL_CTL_DEL, c->fd, NULL);
    hand_to_sink(c);
    return false;
  }
  if (c->hello.mode != kModeEcho || c->hello.size == 0) return close_connection(c), false;
  c->message = must_allocate(c->hello.size, 1);
  return true;
}

static void echo(struct connection* c) {
  ssize_t received = recv(c->fd, c->message + c->received, c->hello.size - c->received, 0);
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (received <= 0) {
    close_connection(c);
    return;
  }
  c->received += (size_t)received;
  if (c->received < c->hello.size) return;
  c->received = 0;
  // Replies are small, so waiting for room is simpler than keeping the rest.
  for (size_t sent = 0; sent < c->hello.size;) {
    ssize_t count = send(c->fd, c->message + sent, c->hello.size - sent, MSG_NOSIGNAL);
    if (count >= 0) {
      sent += (size_t)count;
    } else if (errno == EAGAIN) {
      usleep(50);
    } else if (errno != EINTR) {
      return;  // the next recv sees it too
    }
  }
}

_Noreturn void serve(const char* ip, const char* port) {
  struct sockaddr_in address = address_of(ip, port);
  int on = 1, epoll = epoll_create1(EPOLL_CLOEXEC);
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener, (struct sockaddr*)&address, sizeof address) < 0) die("bind");
  if (listen(listener, 4096) < 0) die("listen");
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[256];
  start_sinks();
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) != 0) die("epoll_ctl");
  for (;;) {
    int count = epoll_wait(epoll, events, 256, -1);
    for (int i = 0; i < count; i++) {
      struct connection* c = events[i].data.ptr;
      if (c == NULL) {
        accept_all(listener, epoll);
      } else if (c->message == NULL) {
        // Data after the greeting is still in the socket, and epoll reports it again.
        greet(c, epoll);
      } else {
        echo(c);
      }
    }
  }
}
