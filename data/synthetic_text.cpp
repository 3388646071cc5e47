#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "data/make_data.hpp"
#include "data/synthetic.hpp"

namespace rekindle::data {
namespace {

constexpr std::size_t kWords = 200;

// A language: its words, and which words often follow each word.
struct Language {
  std::array<std::string, kWords> words;
  std::array<std::array<std::size_t, 4>, kWords> followers{};
};

std::string draw_word(Rng& rng) {
  constexpr std::string_view kConsonants = "bdfgklmnprstvz", kVowels = "aeiou";
  std::string word;
  for (std::uint64_t syllables = 1 + rng.below(3); syllables > 0; --syllables) {
    word += kConsonants[rng.below(kConsonants.size())];
    word += kVowels[rng.below(kVowels.size())];
  }
  if (rng.below(2) == 1) word += kConsonants[rng.below(kConsonants.size())];
  return word;
}

Language draw_language(Rng rng) {
  Language language;
  for (std::string& word : language.words) word = draw_word(rng);
  for (auto& followers : language.followers) {
    for (std::size_t& follower : followers) follower = rng.below(kWords);
  }
  return language;
}

std::size_t draw_next(const Language& language, std::size_t word, Rng& rng) {
  if (rng.below(8) == 0) return rng.below(kWords);
  const std::uint64_t a = rng.below(4), b = rng.below(4);  // the first follower is the most frequent
  return language.followers[word][std::min(a, b)];
}

void append_sentence(const Language& language, std::size_t& word, Rng& rng, std::string& text) {
  const std::size_t begin = text.size();
  for (std::uint64_t words = 4 + rng.below(8); words > 0; --words) {
    word = draw_next(language, word, rng);
    text += language.words[word];
    if (words > 1) text += ' ';
  }
  text[begin] = static_cast<char>(text[begin] - 'a' + 'A');
  text += rng.below(6) == 0 ? ".\n" : ". ";
}

}  // namespace

std::string write_sentences(std::size_t bytes, std::uint64_t seed) {
  const auto format = static_cast<std::uint64_t>(Made::kText);
  const Language language = draw_language(Rng(stream_key(seed, Draws::kMakeData, {format, 0})));
  Rng rng(stream_key(seed, Draws::kMakeData, {format, 1}));
  std::string text;
  text.reserve(bytes + 256);
  for (std::size_t word = 0; text.size() < bytes;) append_sentence(language, word, rng, text);
  text.resize(bytes);
  return text;
}

}  // namespace rekindle::data
