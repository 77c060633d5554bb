#include "rollout/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace costate {
namespace {

// the examples of the standard (FIPS 180-4) and of NIST's test vectors
TEST(Sha256, GivesTheStandardsExamples) {
  EXPECT_EQ(Sha256Of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Sha256Of(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowTheBytesArrive) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 37);
  const std::string expected = Sha256Of(text);
  for (std::size_t piece : {1u, 3u, 55u, 56u, 63u, 64u, 65u, 999u}) {
    Sha256 hash;
    for (std::size_t at = 0; at < text.size(); at += piece)
      hash.Add(text.data() + at, std::min(piece, text.size() - at));
    EXPECT_EQ(hash.Finish(), expected) << "pieces of " << piece;
  }
}

}  // namespace
}  // namespace costate
