/* What the library was compiled from, for harness/io/kernels.py. */

#define EXPORT __attribute__((visibility("default")))

EXPORT const char *harness_sources(void) { return SOURCES; }
