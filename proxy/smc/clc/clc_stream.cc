#include "smc/clc/clc_stream.h"

#include <algorithm>
#include <cstring>

namespace fairlead::smc {

Result<std::size_t> ClcStream::feed(std::span<const std::byte> bytes) {
  std::size_t taken = 0;
  while (taken < bytes.size() && !complete()) {
    const std::size_t wanted = header_ ? header_->length_bytes : wire::kClcHeaderBytes;
    const std::size_t n = std::min(wanted - count_, bytes.size() - taken);
    std::memcpy(buffer_.data() + count_, bytes.data() + taken, n);
    count_ += n;
    taken += n;
    if (header_) continue;
    if (count_ == wire::kClcHeaderBytes) {
      header_ = SMC_TRY(wire::decode_clc_header({buffer_.data(), count_}));
    } else if (!wire::may_be_clc({buffer_.data(), std::min<std::size_t>(count_, 4)})) {
      return Error{Errc::kMalformed, "CLC eyecatcher"};
    }
  }
  return taken;
}

void ClcStream::next() {
  count_ = 0;
  header_.reset();
}

}  // namespace fairlead::smc
