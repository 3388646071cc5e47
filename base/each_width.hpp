// Compiles one loop for each vector width of the processor. Elementwise IEEE operations without contraction
// give the same bits in all of them. Sanitizers run before ifuncs are resolved and crash there, so their
// builds have one plain version.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // GCC
#define REKINDLE_SANITIZED 1
#elif defined(__has_feature)  // clang
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define REKINDLE_SANITIZED 1
#endif
#endif

#if defined(__x86_64__) && !defined(REKINDLE_SANITIZED)
#define REKINDLE_EACH_WIDTH __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define REKINDLE_EACH_WIDTH
#endif
