#include "base/linux/unix_listener.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/linux/unix_socket.h"

namespace fairlead {
namespace {

TimePoint now() { return std::chrono::steady_clock::now(); }

}  // namespace

Result<UnixListener> UnixListener::open(const UnixAddress& address, const Options& options) {
  FileDescriptor fd = SMC_TRY(make_unix_socket(SOCK_SEQPACKET));
  SMC_TRY(bind_unix_socket(fd.get(), address, options.mode, options.what));
  if (::listen(fd.get(), options.backlog) != 0) return system_error("listen", errno);
  return UnixListener(std::move(fd), options);
}

UnixListener::UnixListener(FileDescriptor fd, const Options& options)
    : keeps_spare_(options.keeps_spare), pause_(options.pause), fd_(std::move(fd)) {
  open_spare();
}

void UnixListener::close_with(DescriptorCloser& closer) {
  closer_ = &closer;
  fd_ = ForeignDescriptor(fd_.release(), closer);
}

void UnixListener::open_spare() {
  if (keeps_spare_) spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

ForeignDescriptor UnixListener::take() const {
  FileDescriptor fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  return closer_ != nullptr ? ForeignDescriptor(std::move(fd), *closer_) : std::move(fd);
}

Result<ForeignDescriptor> UnixListener::accept() {
  if (!spare_) open_spare();  // a closer on a thread may not have closed the one before in time
  ForeignDescriptor connection = take();
  if (connection) return connection;
  int error = errno;
  if (keeps_spare_ && (error == EMFILE || error == ENFILE)) {
    spare_.reset();
    connection = take();
    const int spare_error = errno;
    const bool taken = static_cast<bool>(connection);
    connection = {};  // its number is for the spare
    open_spare();
    if (taken) return Error{Errc::kExhausted, "accept", error};
    error = spare_error;
  }
  if (error == EAGAIN || error == EINTR || error == ECONNABORTED) {
    hear();
    return Error{Errc::kWouldBlock, "accept"};
  }
  be_deaf();
  return Error{Errc::kSystem, "accept", error};
}

Deadline UnixListener::deaf_until() const { return pause_is_over() ? Deadline() : deaf_until_; }

Result<void> UnixListener::set_watcher(FdWatcher* watcher) {
  if (watcher_ != nullptr && !deaf_until_) watcher_->unwatch(fd_.get());
  watcher_ = watcher;
  deaf_until_.reset();
  if (watcher_ == nullptr) return {};
  return watcher_->watch_readable(fd_.get(), FdWatcher::Trigger::kLevel);
}

bool UnixListener::pause_is_over() const { return is_due(deaf_until_, now()); }

void UnixListener::be_deaf() {
  if (watcher_ != nullptr && !deaf_until_) watcher_->unwatch(fd_.get());
  deaf_until_ = now() + pause_;
}

void UnixListener::hear() {
  if (!std::exchange(deaf_until_, std::nullopt) || watcher_ == nullptr) return;
  if (!watcher_->watch_readable(fd_.get(), FdWatcher::Trigger::kLevel))
    deaf_until_ = now() + pause_;
}

}  // namespace fairlead
