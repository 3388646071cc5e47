// A library to preload: the system has no process left, so no thread can be made.
#include <cerrno>

extern "C" int pthread_create(void* /*thread*/, const void* /*attributes*/, void* (* /*start*/)(void*),
                              void* /*argument*/) {
  return EAGAIN;
}
