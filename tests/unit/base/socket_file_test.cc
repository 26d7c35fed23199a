// Files of sockets: which are removed, and which are not.
#include "base/linux/socket_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "base/linux/handle.h"

namespace fairlead {
namespace {

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
    FileDescriptor socket(::socket(AF_UNIX, GetParam() | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
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
