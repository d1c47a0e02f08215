/* Moves the clock of a program: LD_PRELOAD of this library adds the seconds in the file MOVED_CLOCK (8 bytes). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *moved;

static long seconds(void) {
    static long none;
    if (!moved) {
        const char *name = getenv("MOVED_CLOCK");
        int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
        void *found = file < 0 ? MAP_FAILED : mmap(0, sizeof none, PROT_READ, MAP_SHARED, file, 0);
        moved = found == MAP_FAILED ? &none : found;
        if (file >= 0)
            close(file);
    }
    return *moved;
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    int failed = syscall(SYS_clock_gettime, clock, out);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        out->tv_sec += seconds();
    return failed;
}

int gettimeofday(struct timeval *out, void *zone) {
    struct timespec found;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &found);
    out->tv_sec = found.tv_sec;
    out->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (out)
        *out = found.tv_sec;
    return found.tv_sec;
}
