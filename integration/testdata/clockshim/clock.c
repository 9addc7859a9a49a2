// A library to preload into redis-server: its wall clock is the machine's plus an offset that lies in a file and may
// change at any instant. CLOCK_MONOTONIC is left true, as it is when an operator or an NTP daemon sets the clock.
//
// The file holds one int64_t, microseconds, and is named by CLOCK_OFFSET_FILE. A program that was not given one, or
// cannot map it, ends at once: a clock that silently stays true would prove nothing.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *offset_us;

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("CLOCK_OFFSET_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *offset_us, PROT_READ, MAP_SHARED, file, 0);
    if (map == MAP_FAILED) {
        fprintf(stderr, "clockshim: CLOCK_OFFSET_FILE names no file that can be mapped\n");
        _exit(70);
    }
    close(file);
    offset_us = map;
}

// The system call itself: what is replaced here cannot be called, and is called before there is a map, too.
int clock_gettime(clockid_t clock, struct timespec *at) {
    int failed = (int)syscall(SYS_clock_gettime, clock, at);
    if (failed == 0 && offset_us != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t offset = *offset_us; // once: it may change between two readings
        int64_t ns = at->tv_nsec + offset % 1000000 * 1000;
        at->tv_sec += offset / 1000000 + (ns >= 1000000000) - (ns < 0);
        at->tv_nsec = ns + (ns < 0 ? 1000000000 : 0) - (ns >= 1000000000 ? 1000000000 : 0);
    }
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone; // obsolete: nobody asks for it
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at != NULL) {
        *at = now.tv_sec;
    }
    return now.tv_sec;
}
