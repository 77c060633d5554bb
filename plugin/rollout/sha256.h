// SHA-256 (FIPS 180-4), by which a saved run notices damage. Not for secrets.
#ifndef COSTATE_ROLLOUT_SHA256_H_
#define COSTATE_ROLLOUT_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace costate {

class Sha256 {
 public:
  void Add(const void* bytes, std::size_t size);

  /// 64 hexadecimal digits of everything added. Call once.
  std::string Finish();

 private:
  void Compress(const std::uint8_t* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> block_;
  std::uint64_t size_ = 0;
};

std::string Sha256Of(std::string_view bytes);

}  // namespace costate

#endif  // COSTATE_ROLLOUT_SHA256_H_
