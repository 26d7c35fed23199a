// Goal: the digest of the standard. Source: FIPS 180-4, examples of NIST.
#include "event/https/sha256.h"

#include <gtest/gtest.h>

namespace fairlead::event {
namespace {

TEST(Sha256, IsThatOfTheStandard) {
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace fairlead::event
