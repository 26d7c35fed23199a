// Goal: base64 of the standard is accepted, and similar texts are not.
#include "injector/base64.h"

#include <gtest/gtest.h>

namespace fairlead::injector {
namespace {

TEST(Base64, HasThePaddingOfItsStandard) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("\xff\xfe\xfd\xfc"), "//79/A==");
}

TEST(Base64, ComesBackAsItWas) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(base64_decoded(base64(bytes)), bytes);
    bytes += static_cast<char>(i);
  }
}

TEST(Base64, RefusesWhatOnlyResemblesIt) {
  for (const char* text : {"Zg", "Zg=", "Z===", "====", "Zg==Zg==", "Z=g=", " Zm9v", "Zm9v\n",
                           "Zm9v    ", "Zm-v", "Zm9", "Zm\x80v", "Zm9vZ"})
    EXPECT_EQ(base64_decoded(text), std::nullopt) << text;
}

}  // namespace
}  // namespace fairlead::injector
