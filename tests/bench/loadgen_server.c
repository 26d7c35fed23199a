// The server of the load generator: one loop for what is echoed, a thread for each bulk connection.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loadgen.h"

enum {
  kMessageBytesMax = 64 << 20,
  kSinkBufferBytes = 256 << 10,
};

struct connection {
  int fd;
  size_t hello_bytes;  // of `hello`, received
  struct hello hello;
  char* message;
  size_t received;  // of `message`
};

// A bulk connection has a thread of its own, so that the receiver is never the narrow place.
static void* sink(void* argument) {
  int fd = (int)(intptr_t)argument;
  char* buffer = must_allocate(kSinkBufferBytes, 1);
  uint64_t total = 0;
  for (;;) {
    ssize_t received = recv(fd, buffer, kSinkBufferBytes, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) break;
    total += (uint64_t)received;
  }
  send_all(fd, &total, sizeof total);
  close(fd);
  free(buffer);
  return NULL;
}

static void hand_to_sink(int fd) {
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  fcntl(fd, F_SETFL, 0);
  if (pthread_create(&thread, &attributes, sink, (void*)(intptr_t)fd) != 0) close(fd);
  pthread_attr_destroy(&attributes);
}

static void close_connection(struct connection* c) {
  close(c->fd);
  free(c->message);
  free(c);
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
    hand_to_sink(c->fd);
    free(c);
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
  // Replies are small: waiting for room is simpler than keeping what is left.
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
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) != 0) die("epoll_ctl");
  for (;;) {
    int count = epoll_wait(epoll, events, 256, -1);
    for (int i = 0; i < count; i++) {
      struct connection* c = events[i].data.ptr;
      if (c == NULL) {
        accept_all(listener, epoll);
      } else if (c->message == NULL) {
        // What follows the greeting is still in the socket: epoll reports it again.
        greet(c, epoll);
      } else {
        echo(c);
      }
    }
  }
}
