/* test_fuzz.c - random operations on the library and on a naive model of it, compared after each.
 *
 *     OPS=20000000 SEED=7 make test T=fuzz
 *
 * Each configuration has a seed of its own, made of SEED and its number, which is printed when something differs: a run
 * with RUN set to that number does that configuration alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

#define SEED_DEFAULT 1u
#define OPERATIONS_DEFAULT 1000000u
#define RUN_OPERATIONS_MIN 500u
#define RUN_OPERATIONS_MAX 5000u

static driver *running; /* for the report when an assertion of the library ends the program */
static uint64_t running_seed;
static uint64_t running_number;

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL || *text == '\0' ? otherwise : strtoull(text, NULL, 0);
}

static void report(void)
{
    (void)fprintf(stderr, "SEED=%" PRIu64 " RUN=%" PRIu64 " repeats this.\n", running_seed, running_number);
    driver_report(running, stderr);
}

static void report_and_die(int signal_number)
{
    report();
    (void)signal(signal_number, SIG_DFL);
    (void)raise(signal_number);
}

/* The library and the model agree through one configuration. The seed alone decides what happens. */
static uint64_t run_one(driver *self, uint64_t seed, uint64_t number)
{
    driver_random random;
    driver_random_start(&random, seed * 1000003u + number);
    running_number = number;
    uint64_t span = RUN_OPERATIONS_MAX - RUN_OPERATIONS_MIN;
    uint64_t count = RUN_OPERATIONS_MIN + random.source.draw(&random.source, (uint32_t)span);
    if (!driver_run(self, &random.source, count)) {
        report();
        fail_msg("the library and the model differ: %s", self->model->error);
    }
    return self->operation;
}

static void the_library_and_a_naive_model_agree_after_every_operation(void **state)
{
    (void)state;
    driver *self = driver_open();
    assert_non_null(self);
    running = self;
    running_seed = setting("SEED", SEED_DEFAULT);
    uint64_t only = setting("RUN", UINT64_MAX);
    uint64_t operation_count = setting("OPS", OPERATIONS_DEFAULT);
    print_message("seed %" PRIu64 "\n", running_seed);
    (void)signal(SIGABRT, report_and_die);
    (void)signal(SIGSEGV, report_and_die);

    uint64_t done = 0;
    if (only != UINT64_MAX) done = run_one(self, running_seed, only);
    for (uint64_t number = 0; only == UINT64_MAX && done < operation_count; number++) {
        done += run_one(self, running_seed, number);
    }
    print_message("%" PRIu64 " operations in %" PRIu64 " configurations:", done, self->run_count);
    for (int i = 0; i < ICP_STATUS_COUNT; i++) {
        if (self->status_counts[i] == 0) continue;
        print_message(" %s %" PRIu64, icp_status_name((icp_status)i), self->status_counts[i]);
    }
    print_message("\n");
    driver_close(self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_and_a_naive_model_agree_after_every_operation),
    };
    return cmocka_run_group_tests_name("fuzz", tests, NULL, NULL);
}
