// The system's table of open files, which a test can hardly fill.
#pragma once

namespace fairlead::rdma::shm {

// The next accept4(2) of this program finds it full.
void let_next_accept_find_no_file();

}  // namespace fairlead::rdma::shm
