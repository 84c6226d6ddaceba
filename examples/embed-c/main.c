/* Softmax of the rows of a matrix, by a function of Fuseloop's. From the root of the repository:

       fuseloop build examples/softmax.fl --emit obj,header -o target/embed
       cc -O2 -I target/embed -o target/embed/embed-c examples/embed-c/main.c target/embed/softmax.o
       target/embed/embed-c 3 5

   prints what `fuseloop run examples/softmax.fl --fn softmax_rows x=arange:3x5` computes, bit for bit. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "softmax.h"

/* Says why a call came to nothing. */
static int failed(int32_t status, const fuseloop_numbers *numbers) {
    fprintf(stderr, "%s: found %" PRId64 ", wanted %" PRId64 "\n", fl_softmax_rows_error(status), numbers->found,
            numbers->wanted);
    return 1;
}

int main(int argc, char **argv) {
    int64_t n = argc > 1 ? atoll(argv[1]) : 3, m = argc > 2 ? atoll(argv[2]) : 5;

    /* What a call of these sizes takes: nothing is allocated behind our back. */
    fl_softmax_rows_needs needs;
    fuseloop_numbers numbers = {0, 0};
    int32_t status = fl_softmax_rows_query(n, m, &needs, &numbers);
    if (status != 0) {
        return failed(status, &numbers);
    }
    size_t count = (size_t)(n * m), results = (size_t)(needs.out[0] * needs.out[1]);
    float *x = malloc((count + 1) * sizeof *x), *out = malloc((results + 1) * sizeof *out);
    void *scratch = malloc((size_t)needs.scratch + 1);
    if (!x || !out || !scratch) {
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        x[i] = (float)i;
    }

    status = fl_softmax_rows(n, m, x, out, scratch, needs.scratch, &numbers);
    if (status != 0) {
        return failed(status, &numbers);
    }
    for (size_t i = 0; i < results; i++) {
        printf("%.9g\n", out[i]);
    }
    free(scratch);
    free(out);
    free(x);
    return 0;
}
