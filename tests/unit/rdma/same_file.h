// Whether two descriptors are of one file.
#pragma once

#include <sys/stat.h>

namespace fairlead::rdma::shm {

inline bool same_file(int one, int other) {
  struct stat of_one {
  }, of_other{};
  return ::fstat(one, &of_one) == 0 && ::fstat(other, &of_other) == 0 &&
         of_one.st_dev == of_other.st_dev && of_one.st_ino == of_other.st_ino;
}

}  // namespace fairlead::rdma::shm
