/* LD_PRELOAD: the TCP sockets of a program become AF_SMC sockets, which the kernel turns into TCP
 * again where SMC cannot be. IPv4 only: the kernel speaks SMC-Rv2 on no other. */
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>

#ifndef AF_SMC
#define AF_SMC 43
#endif
#define SMCPROTO_SMC 0 /* over IPv4 */
#define SOCK_TYPE_MASK 0xf

typedef int (*socket_function)(int, int, int);

__attribute__((visibility("default"))) int socket(int domain, int type, int protocol) {
  /* The cast by way of a union: ISO C knows no conversion from an object to a function. */
  union {
    void* object;
    socket_function function;
  } next = {dlsym(RTLD_NEXT, "socket")};
  if (domain == AF_INET && (type & SOCK_TYPE_MASK) == SOCK_STREAM &&
      (protocol == 0 || protocol == IPPROTO_TCP)) {
    return next.function(AF_SMC, type, SMCPROTO_SMC);
  }
  return next.function(domain, type, protocol);
}
