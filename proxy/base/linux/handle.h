// C handles, RAII from birth. Handle<T, destroy> is a unique_ptr the size of a pointer;
// FileDescriptor does the same for descriptors.
#pragma once

#include <unistd.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace fairlead {

// Prints the call that failed to stderr: a destroy that fails means something still refers to the
// object. This is a bug in Fairlead, but not a reason to abort.
void report_failed_destroy(const char* what, int rc) noexcept;

template <auto Destroy>
struct Destroyer {
  template <class T>
  void operator()(T* object) const noexcept {
    if constexpr (std::is_void_v<decltype(Destroy(object))>) {
      Destroy(object);
    } else if (int rc = static_cast<int>(Destroy(object)); rc != 0) {
      report_failed_destroy(__PRETTY_FUNCTION__, rc);
    }
  }
};

template <class T, auto Destroy>
using Handle = std::unique_ptr<T, Destroyer<Destroy>>;

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~FileDescriptor() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace fairlead
