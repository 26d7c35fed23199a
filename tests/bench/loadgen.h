// Shared declarations of the load generator's clients and server.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  kMagic = 0x4c474e31,
  kModeSink = 1,  // the server counts what comes and answers the count after the end
  kModeEcho = 2,  // the server answers every message of `size` bytes with the same bytes
};

// The first bytes of every connection.
struct hello {
  uint32_t magic, mode;
  uint64_t size;
};

// Prints the failed operation, and ends the process.
void die(const char* what);
// Ends the process if the text is not an address.
struct sockaddr_in address_of(const char* ip, const char* port);
void set_no_delay(int fd);
// False if the connection has failed.
bool send_all(int fd, const void* bytes, size_t count);
// Zeroed memory; ends the process if there is none.
void* must_allocate(size_t count, size_t size);

// The server; ends only by a signal.
_Noreturn void serve(const char* ip, const char* port);
