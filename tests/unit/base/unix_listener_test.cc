// Listening Unix sockets: names, modes, what happens when descriptors are used up, and which of
// their files are removed.
#include "base/linux/unix_listener.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "base/linux/socket_file.h"
#include "base/linux/unix_socket.h"
#include "descriptor_limit.h"

namespace fairlead {
namespace {

std::string own_name(const std::string& text) {
  return "@fairlead-unix-listener-" + std::to_string(::getpid()) + text;
}

UnixAddress address_of(const std::string& name) { return UnixAddress::parse(name).value(); }

using rdma::shm::DescriptorLimit;

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
    const DescriptorLimit none(DescriptorLimit::used_up());
    EXPECT_EQ(listener.accept().error().system, EMFILE);
    EXPECT_TRUE(listener.deaf_until());
  }
  while (!listener.pause_is_over()) std::this_thread::yield();
  EXPECT_FALSE(listener.deaf_until());
  EXPECT_TRUE(listener.accept());  // it has waited
}

TEST(UnixListenerTest, WithASpareDescriptorTakesAndClosesWhatFindsNoneMoreThanOnce) {
  const UnixAddress address = address_of(own_name("c"));
  DescriptorCloser closer([] { return false; });
  for (const bool with_closer : {true, false}) {
    UnixListener listener =
        UnixListener::open(address, {.backlog = 4, .keeps_spare = true}).value();
    if (with_closer) listener.close_with(closer);
    std::vector<FileDescriptor> clients;
    for (int i = 0; i < 3; ++i)
      clients.push_back(std::move(*connect_unix_socket(address, SOCK_SEQPACKET)));
    const DescriptorLimit none(DescriptorLimit::used_up());
    for (const FileDescriptor& client : clients) {
      EXPECT_EQ(listener.accept().error().code, Errc::kExhausted);
      char byte = 0;
      EXPECT_EQ(::recv(client.get(), &byte, 1, 0), 0);
    }
    EXPECT_FALSE(listener.deaf_until());
  }
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

class SocketFileTest : public testing::TestWithParam<int> {
 protected:
  SocketFileTest() {
    char folder[] = "/tmp/fairlead-socket-file-XXXXXX";
    EXPECT_NE(::mkdtemp(folder), nullptr);
    folder_ = folder;
    path_ = folder_ + "/socket";
  }
  ~SocketFileTest() override {
    ::unlink(path_.c_str());
    ::rmdir(folder_.c_str());
  }
  FileDescriptor listen() const {
    FileDescriptor socket = std::move(make_unix_socket(GetParam()).value());
    EXPECT_TRUE(bind_unix_socket(socket.get(), address_of(path_), {}));
    EXPECT_EQ(::listen(socket.get(), 1), 0);
    return socket;
  }
  bool exists() const { return ::access(path_.c_str(), F_OK) == 0; }

  std::string folder_, path_;
};

TEST_P(SocketFileTest, OfNobodyIsRemoved) {
  listen();
  ASSERT_TRUE(exists());
  remove_stale_socket(path_, GetParam());
  EXPECT_FALSE(exists());
}

TEST_P(SocketFileTest, OfAListenerOfAnyTypeStays) {
  const FileDescriptor listener = listen();
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    remove_stale_socket(path_, type);
    EXPECT_TRUE(exists()) << type;
  }
}

TEST_P(SocketFileTest, WhatIsNoSocketStays) {
  ASSERT_EQ(::mkdir(path_.c_str(), 0700), 0);
  remove_stale_socket(path_, GetParam());
  EXPECT_TRUE(exists());
  ::rmdir(path_.c_str());
  const FileDescriptor file(::creat(path_.c_str(), 0600));
  ASSERT_TRUE(file);
  remove_stale_socket(path_, GetParam());
  EXPECT_TRUE(exists());
}

INSTANTIATE_TEST_SUITE_P(Each, SocketFileTest, testing::Values(SOCK_STREAM, SOCK_SEQPACKET));

}  // namespace
}  // namespace fairlead
