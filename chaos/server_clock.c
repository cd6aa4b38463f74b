/* Moves the wall clock of a process, and of all that it starts, by as many seconds as a mapped file says.
 *
 * Loaded with LD_PRELOAD before libc. The file is the one of chaos/clock.py: eight bytes, the offset in seconds. The
 * mapping is made once and inherited by fork, so that every process of a server follows it from the same moment on.
 * The monotonic clock stays as it is.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset;

__attribute__((constructor)) static void follow(void) {
    const char *path = getenv("CHAOS_CLOCK");
    if (path == NULL)
        return;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        offset = mapped;
    close(file);
}

static int64_t ahead(void) { return offset == NULL ? 0 : *offset; }

int clock_gettime(clockid_t id, struct timespec *now) {
    int code = (int)syscall(SYS_clock_gettime, id, now);
    if (code == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        now->tv_sec += ahead();
    return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact) != 0)
        return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *into) {
    struct timespec exact;
    if (clock_gettime(CLOCK_REALTIME, &exact) != 0)
        return (time_t)-1;
    if (into != NULL)
        *into = exact.tv_sec;
    return exact.tv_sec;
}
