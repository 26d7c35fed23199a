// Listening Unix sockets: names, modes, and what happens when descriptors are used up.
#include "base/linux/unix_listener.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "base/linux/unix_socket.h"

namespace fairlead {
namespace {

std::string own_name(const std::string& text) {
  return "@fairlead-unix-listener-" + std::to_string(::getpid()) + text;
}

UnixAddress address_of(const std::string& name) { return UnixAddress::parse(name).value(); }

// As long as it lives, no descriptor can be made but in the gaps below the highest one.
class NoDescriptors {
 public:
  NoDescriptors() {
    (void)::getrlimit(RLIMIT_NOFILE, &before_);
    const FileDescriptor lowest(::dup(STDERR_FILENO));
    const rlimit fewer{static_cast<rlim_t>(lowest.get()), before_.rlim_max};
    (void)::setrlimit(RLIMIT_NOFILE, &fewer);
  }
  ~NoDescriptors() { (void)::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

struct Watcher : FdWatcher {
  Result<void> watch_readable(int fd, Trigger) override {
    watched.push_back(fd);
    return {};
  }
  void unwatch(int fd) override { std::erase(watched, fd); }
  std::vector<int> watched;
};

TEST(UnixAddressTest, HasPathsAndAbstractNames) {
  const auto path = UnixAddress::parse("/run/x").value();
  EXPECT_FALSE(path.is_abstract());
  EXPECT_EQ(path.name(), "/run/x");
  EXPECT_EQ(path.size(), sizeof(sa_family_t) + 7);
  const auto abstract = UnixAddress::parse("@x").value();
  EXPECT_TRUE(abstract.is_abstract());
  EXPECT_EQ(abstract.name(), "x");
  EXPECT_EQ(abstract.size(), sizeof(sa_family_t) + 2);
  EXPECT_EQ(UnixAddress::of_path("@x").value().name(), "@x");
}

TEST(UnixAddressTest, RefusesNamesThatNoSocketHas) {
  for (const std::string& name : {std::string(), std::string("@"), std::string("/a\0b", 4),
                                  std::string(108, 'x'), '@' + std::string(108, 'x')})
    EXPECT_EQ(UnixAddress::parse(name).error().code, Errc::kMalformed) << name;
  EXPECT_TRUE(UnixAddress::parse(std::string(107, 'x')));
  EXPECT_TRUE(UnixAddress::parse('@' + std::string(107, 'x')));
}

TEST(UnixListenerTest, AcceptsWhatConnects) {
  const UnixAddress address = address_of(own_name("a"));
  UnixListener listener = UnixListener::open(address, {}).value();
  EXPECT_EQ(listener.accept().error().code, Errc::kWouldBlock);
  const auto client = connect_unix_socket(address, SOCK_SEQPACKET).value();
  EXPECT_TRUE(listener.accept());
  EXPECT_EQ(UnixListener::open(address, {.what = "the bind"}).error(),
            (Error{Errc::kSystem, "the bind", EADDRINUSE}));
  listener.close();
  EXPECT_FALSE(listener);
  EXPECT_EQ(connect_unix_socket(address, SOCK_SEQPACKET, "the connect").error().what,
            std::string("the connect"));
}

TEST(UnixListenerTest, FileHasItsMode) {
  const std::string path = "/tmp/fairlead-unix-listener-" + std::to_string(::getpid());
  const auto listener = UnixListener::open(address_of(path), {.mode = 0600}).value();
  struct stat status {};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
  ::unlink(path.c_str());
}

TEST(UnixListenerTest, IsDeafForAPauseWithoutADescriptor) {
  const UnixAddress address = address_of(own_name("b"));
  UnixListener listener =
      UnixListener::open(address, {.pause = std::chrono::milliseconds(20)}).value();
  const auto client = connect_unix_socket(address, SOCK_SEQPACKET);
  EXPECT_FALSE(listener.deaf_until());
  {
    const NoDescriptors none;
    EXPECT_EQ(listener.accept().error().system, EMFILE);
    EXPECT_TRUE(listener.deaf_until());
  }
  while (!listener.pause_is_over()) std::this_thread::yield();
  EXPECT_FALSE(listener.deaf_until());
  EXPECT_TRUE(listener.accept());  // it has waited
}

TEST(UnixListenerTest, WithASpareDescriptorTakesAndClosesWhatFindsNone) {
  const UnixAddress address = address_of(own_name("c"));
  DescriptorCloser closer([] { return false; });
  UnixListener listener = UnixListener::open(address, {.keeps_spare = true}).value();
  listener.close_with(closer);
  const FileDescriptor client = std::move(*connect_unix_socket(address, SOCK_SEQPACKET));
  const NoDescriptors none;
  EXPECT_EQ(listener.accept().error().code, Errc::kExhausted);
  char byte = 0;
  EXPECT_EQ(::recv(client.get(), &byte, 1, 0), 0);
  EXPECT_FALSE(listener.deaf_until());
}

TEST(UnixListenerTest, ASpareDescriptorServesMoreThanOnce) {
  const UnixAddress address = address_of(own_name("e"));
  UnixListener listener = UnixListener::open(address, {.backlog = 4, .keeps_spare = true}).value();
  std::vector<FileDescriptor> clients;
  for (int i = 0; i < 3; ++i)
    clients.push_back(std::move(*connect_unix_socket(address, SOCK_SEQPACKET)));
  const NoDescriptors none;
  for (const FileDescriptor& client : clients) {
    EXPECT_EQ(listener.accept().error().code, Errc::kExhausted);
    char byte = 0;
    EXPECT_EQ(::recv(client.get(), &byte, 1, 0), 0);
  }
  EXPECT_FALSE(listener.deaf_until());
}

TEST(UnixListenerTest, IsWatchedWhileItIsNotDeaf) {
  Watcher watcher;
  UnixListener listener =
      UnixListener::open(address_of(own_name("d")), {.pause = Duration::zero()}).value();
  ASSERT_TRUE(listener.set_watcher(&watcher));
  const std::vector<int> itself{listener.descriptor()};
  EXPECT_EQ(watcher.watched, itself);
  EXPECT_FALSE(listener.pause_is_over());
  listener.be_deaf();
  listener.be_deaf();
  EXPECT_TRUE(watcher.watched.empty());
  EXPECT_TRUE(listener.pause_is_over());
  EXPECT_EQ(listener.accept().error().code, Errc::kWouldBlock);
  EXPECT_EQ(watcher.watched, itself);
  ASSERT_TRUE(listener.set_watcher(nullptr));
  EXPECT_TRUE(watcher.watched.empty());
}

}  // namespace
}  // namespace fairlead
