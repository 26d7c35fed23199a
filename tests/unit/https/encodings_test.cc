// Goal: base64 of the standard is accepted, and similar texts are not; the digest is that of the
// standard: FIPS 180-4, examples of NIST.
#include "event/https/base64.h"

#include <gtest/gtest.h>

#include "event/https/sha256.h"

namespace fairlead::event {
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

TEST(Base64Url, HasOtherDigitsAndNoPadding) {
  EXPECT_EQ(base64url_decoded(""), "");
  EXPECT_EQ(base64url_decoded("Zg"), "f");
  EXPECT_EQ(base64url_decoded("Zm8"), "fo");
  EXPECT_EQ(base64url_decoded("__79_A"), "\xff\xfe\xfd\xfc");
  EXPECT_EQ(base64url_decoded("-_-_"), "\xfb\xff\xbf");
  for (const char* text : {"Zg==", "Z", "Zm9vZ", "//79", "Zm+v", " Zm9v", "Zm\x80v"})
    EXPECT_EQ(base64url_decoded(text), std::nullopt) << text;
}

TEST(Sha256, IsThatOfTheStandard) {
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace fairlead::event
