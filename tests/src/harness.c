/* Calls functions of an object as standard input says, and writes what comes of it to standard output: see objects.rs, which puts the
   header before this and a function for each function behind it. Every array ends where memory ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE ((size_t)65536)

/* The floating-point mode, without the exception flags. */
#if defined __x86_64__
static uint64_t mode(void) {
    return __builtin_ia32_stmxcsr() & ~0x3fu;
}
static void set_mode(uint64_t to) {
    __builtin_ia32_ldmxcsr((unsigned)to);
}
#else
static uint64_t mode(void) {
    uint64_t found;
    __asm__ volatile("mrs %0, fpcr" : "=r"(found));
    return found;
}
static void set_mode(uint64_t to) {
    __asm__ volatile("msr fpcr, %0" : : "r"(to));
}
#endif

static uint64_t first_mode;

static void begin(void) {
#ifdef MODE
    set_mode(MODE);
#else
    set_mode(mode());
#endif
    first_mode = mode();
}

/* Checks that a call left the mode unchanged. */
static void hold_mode(void) {
    if (mode() != first_mode) {
        abort();
    }
}

struct block {
    char *first;
    size_t bytes;
};
static struct block blocks[256];
static size_t block_count;

/* Memory whose end is the end of what may be accessed. */
static void *memory(int64_t bytes) {
    size_t all = ((size_t)bytes + PAGE - 1) / PAGE * PAGE + PAGE;
    char *first = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes < 0 || first == MAP_FAILED || block_count == 256 || mprotect(first + all - PAGE, PAGE, PROT_NONE) != 0) {
        abort();
    }
    blocks[block_count++] = (struct block){first, all};
    return first + all - PAGE - bytes;
}

static void forget(void) {
    while (block_count > 0) {
        block_count--;
        munmap(blocks[block_count].first, blocks[block_count].bytes);
    }
}

static void get(void *to, size_t bytes) {
    if (fread(to, 1, bytes, stdin) != bytes) {
        abort();
    }
}

static void put(const void *from, size_t bytes) {
    if (fwrite(from, 1, bytes, stdout) != bytes) {
        abort();
    }
}

static int64_t number(void) {
    int64_t found;
    get(&found, sizeof found);
    return found;
}

static void *array(void) {
    int64_t bytes = number();
    void *found = memory(bytes);
    get(found, (size_t)bytes);
    return found;
}

/* Memory for a result, filled with what no program leaves by chance. */
static void *room(int64_t bytes) {
    void *found = memory(bytes);
    memset(found, 0xa5, (size_t)bytes);
    return found;
}

static void put_array(const void *from, int64_t bytes) {
    put(&bytes, sizeof bytes);
    put(from, (size_t)bytes);
}

static int64_t product(const int64_t *shape, int rank) {
    int64_t count = 1;
    for (int axis = 0; axis < rank; axis++) {
        count *= shape[axis];
    }
    return count;
}

static void put_status(int32_t status, fuseloop_numbers numbers) {
    int64_t all[3] = {status, numbers.found, numbers.wanted};
    put(all, sizeof all);
}
